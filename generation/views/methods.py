"""Allowed methods for async views, refused with the API's error body."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from generation.exceptions import MethodNotAllowedError
from generation.views.responses import View, error_response

P = ParamSpec("P")


def require_methods(*methods: str) -> Callable[[View[P]], View[P]]:
    """Refuse other methods with 405. HEAD must be named too: Django would run a whole stream for it."""

    def decorate(view: View[P]) -> View[P]:
        @functools.wraps(view)
        async def answer(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method in methods:
                return await view(request, *args, **kwargs)
            allowed = ", ".join(methods)
            response = error_response(MethodNotAllowedError(f"{request.method} is not allowed here; use {allowed}."))
            response["Allow"] = allowed
            return response

        return answer

    return decorate
