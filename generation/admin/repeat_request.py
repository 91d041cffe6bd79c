"""A stored stream's request as a curl command that asks for the same again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from generation.export.corpus_lines import WIRE_NAMES
from generation.models import Stream

_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def curl_command(stream: Stream, site: str) -> str:
    """Write the command for the site at this address; its key is read from the variable ``STREAMSITE_API_KEY``.

    The JSON is ASCII, so that a terminal it is pasted into sees no control character.
    """
    parameters: dict[str, Any] = dict(stream.parameters) if isinstance(stream.parameters, dict) else {}
    if stream.endpoint == "completions" and parameters.pop("logprobs", False):
        # That form of request has the number of likeliest tokens there.
        parameters["logprobs"] = parameters.pop("top_logprobs", 0)
    body: dict[str, Any] = {
        "model": stream.model,
        **_asked(stream.messages),
        **{WIRE_NAMES.get(name, name): value for name, value in parameters.items() if value is not None},
        "stream": True,
        **({"stream_options": {"include_usage": True}} if stream.include_usage else {}),
    }
    return " \\\n  ".join(
        [
            f"curl --no-buffer {shlex.quote(site.rstrip('/') + _PATHS.get(stream.endpoint, _PATHS['chat']))}",
            '-H "Authorization: Bearer $STREAMSITE_API_KEY"',
            "-H 'Content-Type: application/json'",
            f"-d {shlex.quote(json.dumps(body))}",
        ]
    )


def _asked(messages: Any) -> dict[str, Any]:
    """The messages; or the bare prompt, which is recorded as the only message, of the role ``prompt``."""
    if not messages:
        return {}
    only = messages[0] if len(messages) == 1 else None
    if isinstance(only, dict) and only.get("role") == "prompt":
        return {"prompt": only.get("content")}
    return {"messages": messages}
