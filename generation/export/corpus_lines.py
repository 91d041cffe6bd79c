"""A stream's request as an item of a corpus: OpenAI's messages and parameters, as `replay.corpus` reads them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generation.models import Stream

#: Parameters that have another name in a request than in the record.
WIRE_NAMES: Mapping[str, str] = {"include_stop": "include_stop_str_in_output"}


def corpus_item(stream: Stream) -> dict[str, Any] | None:
    """The item, named by the stream's id; None where no words were stored, or a prompt of token ids.

    A bare prompt becomes a user's message. ``n`` is left out: each of the answers is a stream, and so an item.
    """
    messages = [_asked(message) for message in stream.messages]
    if not stream.has_text or not messages or not all(isinstance(message["content"], str) for message in messages):
        return None
    parameters = {
        WIRE_NAMES.get(name, name): value
        for name, value in stream.parameters.items()
        if value is not None and name != "n"
    }
    return {"id": str(stream.pk), "messages": messages, **parameters}


def _asked(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as it was asked; the record keeps a bare prompt as one of the role ``prompt``."""
    return {**message, "role": "user"} if message["role"] == "prompt" else dict(message)
