"""One event of an upstream's stream, read strictly: JSON text in, a frozen `UpstreamChunk` out, or an UpstreamError.

Unknown fields are passed over, known ones of a wrong type are an error. Not read with pydantic, because it refuses text
with half of a surrogate pair, which servers send when a JSON escape falls on a chunk's border.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

from generation.exceptions import UpstreamError
from generation.output import TokenLogprob, ToolCallDelta, Usage

T = TypeVar("T")
#: Characters of an upstream's own words that a message repeats.
MAX_QUOTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamChunk:
    """What one event brings; ``matched`` is the stop string or id that vLLM and SGLang say ended the answer."""

    id: str = ""
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: str | None = None
    matched: str | int | None = None
    usage: Usage | None = None


def parse_chunk(event: str) -> UpstreamChunk:
    """Read the data of one event. Raises UpstreamError for what is no chunk, and for an error told inside a 200."""
    try:
        body = json.loads(event)
    except (ValueError, RecursionError) as exc:
        raise _malformed(f"an event is not JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise _malformed("an event is not a JSON object")
    if body.get("error") or body.get("object") == "error":
        raise UpstreamError(f"The upstream reported an error: {error_text(body)}", code=_error_code(body))
    choices = _get(body, "choices", list) or []
    usage = _usage(_get(body, "usage", dict))
    if "choices" not in body and usage is None:
        raise _malformed("an event has neither choices nor usage")
    found = _choice(choices) if choices else {}
    return UpstreamChunk(id=_get(body, "id", str) or "", usage=usage, **found)


def error_text(body: Mapping[str, Any]) -> str:
    """The upstream's own words in an error body of any of the usual shapes, shortened."""
    error = body.get("error") or body
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("detail") or error.get("type") or "no message"
    text = error if isinstance(error, str) else json.dumps(error)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def _error_code(body: Mapping[str, Any]) -> str | None:
    """The upstream's own word for the error, if it has one."""
    error = body.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    return code[:100] if isinstance(code, str) and code else None


def _choice(choices: list[Any]) -> dict[str, Any]:
    """The fields of the only choice; a second one was not asked for."""
    choice = choices[0]
    if len(choices) > 1 or not isinstance(choice, dict) or choice.get("index") not in (0, None):
        raise _malformed("an event has other choices than the one asked for")
    delta: Mapping[str, Any] = _get(choice, "delta", dict) or {}
    logprobs = _get(choice, "logprobs", dict)
    matched = choice.get("stop_reason", choice.get("matched_stop"))
    return {
        # A refusal (OpenAI's) is what the model says to the reader.
        "text": (_get(delta, "content", str) or _get(choice, "text", str) or "") + (_get(delta, "refusal", str) or ""),
        "reasoning": _get(delta, "reasoning", str) or _get(delta, "reasoning_content", str) or "",
        "tool_calls": tuple(
            _tool_call(call, place) for place, call in enumerate(_get(delta, "tool_calls", list) or ())
        ),
        "logprobs": tuple(_logprobs(logprobs)) if logprobs else (),
        "finish_reason": _get(choice, "finish_reason", str) or None,
        "matched": matched if isinstance(matched, str | int) else None,
    }


def _tool_call(call: object, place: int) -> ToolCallDelta:
    if not isinstance(call, dict):
        raise _malformed("a tool call is not an object")
    function: Mapping[str, Any] = _get(call, "function", dict) or {}
    index = _get(call, "index", int)
    return ToolCallDelta(
        # Servers that send whole calls at once leave the index out.
        index=place if index is None else index,
        id=_get(call, "id", str) or None,
        name=_get(function, "name", str) or None,
        arguments=_get(function, "arguments", str) or "",
    )


def _logprobs(logprobs: Mapping[str, Any]) -> list[TokenLogprob]:
    """The entries of a chat's ``content`` list, or of the parallel lists of a completion."""
    if "tokens" not in logprobs:
        return [_entry(entry) for entry in _get(logprobs, "content", list) or ()]
    tokens = _get(logprobs, "tokens", list) or []
    values = _get(logprobs, "token_logprobs", list) or []
    tops = _get(logprobs, "top_logprobs", list) or [None] * len(tokens)
    if not len(tokens) == len(values) == len(tops):
        raise _malformed("the lists of logprobs differ in length")
    return [
        _entry(
            {
                "token": token,
                "logprob": value,
                "top_logprobs": [{"token": one, "logprob": its} for one, its in (top or {}).items()],
            }
        )
        for token, value, top in zip(tokens, values, tops, strict=True)
    ]


def _entry(entry: object) -> TokenLogprob:
    if not isinstance(entry, dict):
        raise _malformed("an entry of logprobs is not an object")
    token, logprob = entry.get("token"), entry.get("logprob")
    if not isinstance(token, str) or not isinstance(logprob, int | float) or not isfinite(logprob):
        raise _malformed("an entry of logprobs lacks its token or a finite logprob")
    text = token.encode("utf-8", "replace")
    data = entry.get("bytes")
    return TokenLogprob(
        text=text.decode(),
        data=bytes(data) if isinstance(data, list) and all(type(b) is int and 0 <= b < 256 for b in data) else text,
        logprob=float(logprob),
        top=tuple(_entry(one) for one in _get(entry, "top_logprobs", list) or ()),
    )


def _usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Token counts; None unless both are told."""
    if usage is None:
        return None
    prompt, completion = _get(usage, "prompt_tokens", int), _get(usage, "completion_tokens", int)
    if prompt is None or completion is None or min(prompt, completion) < 0:
        return None
    details: Mapping[str, Any] = _get(usage, "prompt_tokens_details", dict) or {}
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=_get(details, "cached_tokens", int))


def _get(fields: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """The field if it has the right type, None if it is null or absent."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _malformed(f"'{name}' is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _malformed(problem: str) -> UpstreamError:
    return UpstreamError(f"The upstream's answer cannot be read: {problem}.", code="upstream_malformed")
