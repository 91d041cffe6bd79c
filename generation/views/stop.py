"""``POST /chat/stop/``: end one of the caller's own streams at once; the same answer whether it still ran or not.

Some proxies do not pass a client's abort on, so the page's Stop and ``pagehide`` post here too. Takes JSON, or form
data with the CSRF token, which is all that ``sendBeacon`` can send.
"""

from __future__ import annotations

import re
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from generation.exceptions import InvalidRequestError
from generation.models import Stream
from generation.output import StopReason
from generation.protocol.completion_request import load_json_object
from generation.streaming import Origin, live
from generation.views.access import page_caller
from generation.views.methods import require_methods
from generation.views.pages import read_uuid
from generation.views.responses import read_json_body, with_error_bodies

#: The largest value of the column that stores it.
MAX_SEEN_CHARS = 2**31 - 1


@with_error_bodies
@require_methods("POST")
async def chat_stop(request: HttpRequest) -> HttpResponseBase:
    """Stop the stream ``stream_id``; ``seen_chars`` is how many characters the reader had been shown."""
    fields: dict[str, Any] = (
        load_json_object(read_json_body(request)) if request.content_type == "application/json" else request.POST.dict()
    )
    stream_id = read_uuid(fields, "stream_id")
    if stream_id is None:
        raise InvalidRequestError("'stream_id' is missing; it must be the UUID of a stream.", param="stream_id")
    seen_chars = _seen_chars(fields)
    caller = await sync_to_async(page_caller)(request)
    left = fields.get("reason") == "leave"
    live.stop(
        stream_id,
        Origin(source="page", user_id=caller.user_id, session_key=caller.session_key),
        StopReason.CLIENT_DISCONNECT if left else StopReason.CLIENT_STOP,
    )
    if seen_chars is not None:
        streams = Stream.objects.owned_by(caller.user, caller.session_key).filter(client_stream_id=stream_id)
        await streams.filter(seen_chars__isnull=True).aupdate(seen_chars=seen_chars)
    return HttpResponse(status=204)


def _seen_chars(fields: dict[str, Any]) -> int | None:
    value = fields.get("seen_chars")
    if value in (None, ""):
        return None
    # Python refuses to read more than 4,300 digits; no answer has this many characters.
    if not isinstance(value, bool) and isinstance(value, int | str) and re.fullmatch("[0-9]{1,10}", str(value)):
        return min(int(value), MAX_SEEN_CHARS)
    raise InvalidRequestError("'seen_chars' must be a whole number from 0.", param="seen_chars")
