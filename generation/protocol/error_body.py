"""The error object of the OpenAI API: always ``message``, ``type``, ``param`` and ``code``, null where unknown."""

from __future__ import annotations

from typing import TypedDict

from generation.exceptions import GenerationError


class ErrorFields(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    error: ErrorFields


def error_body(error: GenerationError) -> ErrorBody:
    """The JSON body, the same before the first byte (with a status) and after it (in a frame)."""
    return {"error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code}}
