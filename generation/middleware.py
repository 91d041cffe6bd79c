"""Gives the database connection back before a stream begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import async_only_middleware

AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@async_only_middleware
def release_connection(get_response: AsyncHandler) -> AsyncHandler:
    """Close what other middleware opened after the view, as the session's does when it is new.

    Django closes connections when a request ends, which for a stream is minutes later. Goes first in the list.
    """

    async def respond(request: HttpRequest) -> HttpResponseBase:
        response = await get_response(request)
        if response.streaming:
            await sync_to_async(close_old_connections)()
        return response

    return respond
