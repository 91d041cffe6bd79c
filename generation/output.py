"""What a generation produces: token outputs, deltas, holds, and how it ended.

Frozen values that cross the borders between engine, text pipeline, backends, recorder and protocol.
Times are float seconds of one process's monotonic clock; they are never mixed with wall time.
This module imports neither Django nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """The closed set that the OpenAI wire format allows in ``finish_reason``."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class StopReason(StrEnum):
    """Why a stream ended, finer than the wire says; the record keeps this one."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    STOP_TOKEN = "stop_token"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    LENGTH = "length"
    CONTEXT = "context"
    CLIENT_DISCONNECT = "client_disconnect"
    CLIENT_STOP = "client_stop"
    TIMEOUT = "timeout"
    SERVER_SHUTDOWN = "server_shutdown"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_TRUNCATED = "upstream_truncated"
    ENGINE_ERROR = "engine_error"
    LOST = "lost"

    @property
    def finish_reason(self) -> FinishReason | None:
        """The wire's word for this reason; None when the wire must carry an error or nothing at all."""
        return _WIRE_REASON.get(self)

    @property
    def ended_by(self) -> EndedBy:
        """Who ended the stream, as the record states it."""
        return _ENDED_BY[self]


class EndedBy(StrEnum):
    """Who ended a stream."""

    MODEL = "model"
    USER = "user"
    CLIENT = "client"
    SERVER = "server"
    UPSTREAM = "upstream"


_WIRE_REASON = {
    StopReason.EOS: FinishReason.STOP,
    StopReason.STOP_STRING: FinishReason.STOP,
    StopReason.STOP_TOKEN: FinishReason.STOP,
    StopReason.TOOL_CALLS: FinishReason.TOOL_CALLS,
    StopReason.CONTENT_FILTER: FinishReason.CONTENT_FILTER,
    # The reader asked for the end and gets a well-formed one.
    StopReason.CLIENT_STOP: FinishReason.STOP,
    StopReason.LENGTH: FinishReason.LENGTH,
    StopReason.CONTEXT: FinishReason.LENGTH,
}

_ENDED_BY = {
    StopReason.EOS: EndedBy.MODEL,
    StopReason.STOP_STRING: EndedBy.MODEL,
    StopReason.STOP_TOKEN: EndedBy.MODEL,
    StopReason.TOOL_CALLS: EndedBy.MODEL,
    StopReason.CONTENT_FILTER: EndedBy.MODEL,
    StopReason.LENGTH: EndedBy.MODEL,
    StopReason.CONTEXT: EndedBy.MODEL,
    StopReason.CLIENT_STOP: EndedBy.USER,
    StopReason.CLIENT_DISCONNECT: EndedBy.CLIENT,
    StopReason.TIMEOUT: EndedBy.SERVER,
    StopReason.SERVER_SHUTDOWN: EndedBy.SERVER,
    StopReason.ENGINE_ERROR: EndedBy.SERVER,
    StopReason.LOST: EndedBy.SERVER,
    StopReason.UPSTREAM_ERROR: EndedBy.UPSTREAM,
    StopReason.UPSTREAM_TRUNCATED: EndedBy.UPSTREAM,
}


class HoldCause(StrEnum):
    """Why text that was already generated had to wait."""

    UTF8 = "utf8"
    CONTEXT = "context"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One wait that a delta ended: its cause, how much waited, and for how long.

    ``size`` counts bytes for ``utf8`` and characters for ``context`` and ``stop``.
    ``held_s`` runs from the push that began the hold to the push that released it; None without token times.
    """

    cause: HoldCause
    size: int
    held_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token of the answer as ``logprobs`` shows it: its bytes, which may be part of a character, and its likelihood.

    ``text`` is the bytes decoded with U+FFFD for what is no text by itself. ``top`` holds the likeliest tokens at the
    same place, the likeliest first; theirs are empty.
    """

    text: str
    data: bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A piece of a tool call: ``id`` and ``name`` come with its first piece, ``arguments`` (JSON) in parts."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of text that is safe to show: never to be taken back, and never empty unless it brings tool calls.

    ``first_token`` and ``end_token`` are a half-open range of positions (0-based, in the order generated) of the
    tokens (pieces, for backends without tokens) whose arrival this delta accounts for; the ranges of consecutive
    deltas of a stream join without gap or overlap. ``made_at`` is the time of the last of them, if known.
    ``logprobs``, where asked for, has an entry for each of these tokens that is part of the text.
    """

    text: str
    first_token: int
    end_token: int
    made_at: float | None = None
    holds: tuple[Hold, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCallDelta, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdLogprobs:
    """The log-probability of a chosen id, and the likeliest ids at its place with theirs, the likeliest first.

    They are the model's own, of the logits before temperature, penalties, bias and masks.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOutput:
    """One token as the engine made it; ``stop_reason`` is set on the last one of a sequence only.

    ``token_id`` is None when the sequence ended without a further token (cancelled, failed, context full).
    A token that ended the sequence (end token, stop token) is not part of the text.
    """

    token_id: int | None
    made_at: float
    stop_reason: StopReason | None = None
    logprobs: IdLogprobs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one generation, as the OpenAI ``usage`` object has them.

    ``cached_tokens`` of the prompt were there from earlier ones; None when that is not known.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a generation ended, as its backend saw it.

    ``usage`` is None when the backend does not know its tokens (never guessed).
    """

    stop_reason: StopReason
    stop_string: str | None = None
    usage: Usage | None = None
