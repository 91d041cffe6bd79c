"""A stored stream again, as the text or the very frames that were sent, each with its time.

In: a `Stream` row. Out: pairs of (seconds since the request, piece), read in parts with no cursor left open, so that a
player may take hours. The frames equal those of `streaming.EventStream` byte for byte, without its keep-alive comments;
they are those of the whole request, of all the answers that were asked for together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from generation.models import Stream
from generation.output import Delta, FinishReason, TokenLogprob, ToolCallDelta, Usage
from generation.protocol import DONE, ChunkWriter, chunk_writer, data_frame
from generation.protocol.chunk import json_line
from generation.streaming.choices import joined_usage

#: Batches in one query; at four a second, some ten seconds of a stream.
BATCHES_AT_ONCE = 40


def stored_deltas(stream: Stream) -> Iterator[tuple[float, str]]:
    """The text of each delta when it was sent, as far as it is in the log."""
    return ((delta["sent_s"], delta["text"]) for delta in _stored(stream))


def stored_frames(stream: Stream, *, include_usage: bool | None = None) -> Iterator[tuple[float, bytes]]:
    """The frames of a stream when they were sent; those of a running one as far as they are stored.

    ``include_usage`` None is what the client had asked for. A client that left, and a process that died, got no last
    frames.
    """
    choices = list(Stream.objects.filter(wire_id=stream.wire_id).order_by("choice"))
    if include_usage is None:
        include_usage = stream.include_usage
    chunks = chunk_writer(
        stream.endpoint,
        wire_id=stream.wire_id,
        created=int(stream.started_at.timestamp()),
        model=stream.model,
        include_usage=include_usage,
    )
    for choice in choices:
        first = chunks.first(choice.choice)
        if first is not None:
            yield 0.0, data_frame(first)
    yield from heapq.merge(*(_choice_frames(choice, chunks) for choice in choices), key=itemgetter(0))
    ended_s = max((choice.total_s or 0.0 for choice in choices), default=0.0)
    for frame in _last_frames(choices, chunks, include_usage=include_usage):
        yield ended_s, frame


def _stored(stream: Stream) -> Iterator[dict[str, Any]]:
    next_seq = 1
    while batches := list(stream.batches.filter(first_seq__gte=next_seq).order_by("first_seq")[:BATCHES_AT_ONCE]):
        for batch in batches:
            next_seq = batch.first_seq + len(batch.deltas)
            yield from batch.deltas


def _choice_frames(choice: Stream, chunks: ChunkWriter) -> Iterator[tuple[float, bytes]]:
    """The frames of one answer, to its finish."""
    for stored in _stored(choice):
        yield stored["sent_s"], data_frame(chunks.delta(choice.choice, _delta(stored)))
    if choice.finish_reason is not None:
        reason = FinishReason(choice.finish_reason)
        yield choice.total_s or 0.0, data_frame(chunks.finish(choice.choice, reason))


def _last_frames(choices: Sequence[Stream], chunks: ChunkWriter, *, include_usage: bool) -> list[bytes]:
    error = next((choice.error_body for choice in choices if choice.error_body is not None), None)
    if error is not None:
        return [data_frame(json_line(error)), DONE]
    if any(choice.finish_reason is None for choice in choices):
        return []
    usage = joined_usage([(_starts_prompt(choice), _wire_usage(choice)) for choice in choices])
    if include_usage and usage is not None:
        return [data_frame(chunks.usage(usage)), DONE]
    return [DONE]


def _starts_prompt(choice: Stream) -> bool:
    return choice.choice % int(choice.parameters.get("n", 1)) == 0


def _wire_usage(stream: Stream) -> Usage | None:
    """The counts as the client got them: without the tokens that were made after the end."""
    if stream.prompt_tokens is None or stream.completion_tokens is None:
        return None
    return Usage(
        prompt_tokens=stream.prompt_tokens,
        completion_tokens=stream.completion_tokens - (stream.wasted_tokens or 0),
        cached_tokens=stream.cached_tokens,
    )


def _delta(stored: dict[str, Any]) -> Delta:
    return Delta(
        text=stored["text"],
        first_token=stored["first_token"],
        end_token=stored["end_token"],
        logprobs=tuple(_logprob(entry) for entry in stored.get("logprobs", ())),
        tool_calls=tuple(ToolCallDelta(**piece) for piece in stored.get("tool_calls", ())),
    )


def _logprob(stored: dict[str, Any]) -> TokenLogprob:
    return TokenLogprob(
        text=stored["text"],
        data=bytes.fromhex(stored["bytes"]),
        logprob=stored["logprob"],
        top=tuple(_logprob(one) for one in stored.get("top", ())),
    )
