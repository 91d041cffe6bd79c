"""Bounds on a request's body, kept before Django reads it: Django spools a whole body to disk first.

In: the server's scopes and ``receive``. Out: the same, or a 413 or 408 with the API's error body once a body is longer
than it may be (by its Content-Length, or by what came of a chunked one) or takes longer to come than it may. The
connection closes with the refusal, because what is left of the body would be taken for the next request.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

from generation.exceptions import GenerationError, RequestTimeoutError, RequestTooLargeError
from generation.protocol import error_body

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

#: What is still read of a refused body, and for how long: a socket closed with bytes unread is reset, and the client
#: loses the answer that says why.
DISCARD_BYTES = 16 * 1024 * 1024
DISCARD_S = 2.0


class BodyLimit:
    """Wraps an ASGI application; only ``http`` scopes have bodies."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        body = _Body(receive)
        try:
            # Python refuses to read thousands of digits; this many are too large already.
            declared = headers.get(b"content-length", b"")[:20]
            if declared.isdigit() and int(declared) > settings.STREAMSITE_MAX_BODY_BYTES:
                raise _too_large()
            await self._application(scope, body.receive, send)
        except RequestTooLargeError as exc:
            # A client that waits for "100 Continue" has sent nothing yet.
            await _refuse(exc, send, left=None if body.complete or b"expect" in headers else receive)
        except RequestTimeoutError as exc:
            await _refuse(exc, send, left=None)


class _Body:
    """The body of one request, as it comes."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._deadline = asyncio.get_running_loop().time() + settings.STREAMSITE_BODY_TIMEOUT_S
        self._read_bytes = 0
        self.complete = False

    async def receive(self) -> Message:
        """The next message. Raises RequestTooLargeError and RequestTimeoutError while the body comes, nothing later."""
        if self.complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as exc:
            timeout_s = settings.STREAMSITE_BODY_TIMEOUT_S
            raise RequestTimeoutError(f"The body did not come within {timeout_s:g} s; send it faster.") from exc
        self._read_bytes += len(message.get("body", b""))
        self.complete = not message.get("more_body", False)
        if self._read_bytes > settings.STREAMSITE_MAX_BODY_BYTES:
            raise _too_large()
        return message


def _too_large() -> RequestTooLargeError:
    limit = settings.STREAMSITE_MAX_BODY_BYTES
    return RequestTooLargeError(f"The body is larger than the {limit:,} bytes that this server reads.")


async def _refuse(error: GenerationError, send: Send, *, left: Receive | None) -> None:
    """Answer with the error and close; meanwhile read some of what is ``left`` of the body."""
    body = json.dumps(error_body(error)).encode("ascii")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
        (b"connection", b"close"),
        (b"x-request-id", f"req_{uuid.uuid4().hex}".encode("ascii")),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    # Whole by its length, so that the client can leave; ended only when the server may close the socket.
    await send({"type": "http.response.body", "body": body, "more_body": left is not None})
    if left is not None:
        await _discard(left)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    """Read and forget, up to `DISCARD_BYTES` and `DISCARD_S`."""
    discarded = 0
    try:
        async with asyncio.timeout(DISCARD_S):
            while discarded < DISCARD_BYTES:
                message = await receive()
                discarded += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return
