"""The events of one upstream answer in, deltas out, and in the end why it ended; pure, the times come in.

Text goes through a pipeline that joins what was cut in the middle of a character, and that matches stop strings where
the server is not known to keep them out of its streams. Tokens are counted only where the server tells them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Literal

from generation.backends.upstream_chunk import UpstreamChunk, parse_chunk
from generation.backends.upstream_kind import UpstreamKind
from generation.backends.upstream_request import sends_stop
from generation.exceptions import UpstreamError, UpstreamTruncatedError
from generation.output import Delta, StopReason, TokenLogprob, Usage
from generation.request import GenerationRequest
from generation.text import PiecesPipeline

Reasoning = Literal["inline", "drop"]

_STOP_REASONS = {
    "stop": StopReason.EOS,
    "eos_token": StopReason.EOS,
    "stop_sequence": StopReason.STOP_STRING,
    "length": StopReason.LENGTH,
    "model_length": StopReason.CONTEXT,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.CONTENT_FILTER,
}


class UpstreamAnswer:
    """Push events until ``over``; ``stop_reason`` may be known before, then only token counts are waited for."""

    def __init__(self, request: GenerationRequest, kind: UpstreamKind, *, reasoning: Reasoning) -> None:
        self.upstream_id = ""
        self.usage: Usage | None = None
        self.first_token_at: float | None = None
        #: One per token, where the server tells its tokens.
        self.token_times: list[float] = []
        self.stop_reason: StopReason | None = None
        self.stop_string: str | None = None
        #: Nothing that is still to come is needed.
        self.over = False
        self._kind = kind
        self._reasoning = reasoning
        self._stop = request.sampling.stop
        self._counts_tokens = request.sampling.logprobs
        self._top_logprobs = request.sampling.top_logprobs
        self._sends_stop = sends_stop(request, kind)
        matched_here = () if kind.exact_stop and self._sends_stop else self._stop
        self._pipeline = PiecesPipeline(stop=matched_here, include_stop=request.sampling.include_stop)
        self._thinks = False
        self._called_tools = False
        #: Tokens (chunks, where tokens are not told) after each piece that went into the pipeline.
        self._counts = [0]
        #: Where the next delta's range begins.
        self._covered = 0
        #: Entries of tokens that are not shown yet, each with where its token begins in the text.
        self._logprobs: deque[tuple[int, TokenLogprob]] = deque()
        self._pushed_chars = 0
        self._shown_chars = 0

    def push(self, event: str, now: float) -> list[Delta]:
        """Return the deltas of one event. Raises UpstreamError for one that cannot be read or tells an error."""
        if self.over:
            return []
        if event == "[DONE]":
            self.end_of_input()
            return []
        chunk = parse_chunk(event)
        self.upstream_id = self.upstream_id or chunk.id[:200]
        self.usage = chunk.usage or self.usage
        if self.stop_reason is not None:
            return []
        deltas = self._push(chunk, now) if _brings_tokens(chunk) else []
        if self._pipeline.stop_string is not None:
            self.stop_reason, self.stop_string = StopReason.STOP_STRING, self._pipeline.stop_string
            # A server that was not told of it goes on.
            self.over = not self._sends_stop
        elif chunk.finish_reason is not None:
            self._finish(chunk.finish_reason, chunk.matched)
        return deltas

    def end_of_input(self) -> None:
        """``[DONE]``, or the end of the body. Raises UpstreamTruncatedError when nothing said why."""
        if self.stop_reason is None:
            if not (self._kind.ends_without_finish and self.first_token_at is not None):
                raise UpstreamTruncatedError("The upstream's answer ended without saying why.")
            self.stop_reason = StopReason.TOOL_CALLS if self._called_tools else StopReason.EOS
        self.over = True

    def flush(self) -> list[Delta]:
        """Bring out what the pipeline holds; text that completes a stop string there wins over the reason so far."""
        deltas = self._counted(self._pipeline.flush())
        if self._pipeline.stop_string is not None:
            self.stop_reason, self.stop_string = StopReason.STOP_STRING, self._pipeline.stop_string
        return deltas

    def _push(self, chunk: UpstreamChunk, now: float) -> list[Delta]:
        if self.first_token_at is None:
            self.first_token_at = now
        count = self._counts[-1] + (len(chunk.logprobs) if self._counts_tokens else 1)
        self._counts.append(count)
        self.token_times.extend(now for _ in chunk.logprobs)
        text = self._marked(chunk)
        self._keep(chunk.logprobs, text)
        deltas = self._counted(self._pipeline.push(text, now))
        if chunk.tool_calls:
            self._called_tools = True
            first, self._covered = self._covered, count
            deltas.append(Delta(text="", first_token=first, end_token=count, made_at=now, tool_calls=chunk.tool_calls))
        return deltas

    def _marked(self, chunk: UpstreamChunk) -> str:
        """The chunk's text; reasoning stands before it in the marks that models themselves write."""
        text = chunk.text
        if self._reasoning == "drop":
            return text
        if self._thinks and text and not chunk.reasoning:
            self._thinks = False
            return f"</think>{text}"
        if chunk.reasoning:
            opening = "" if self._thinks else "<think>"
            self._thinks = not text
            return f"{opening}{chunk.reasoning}" + (f"</think>{text}" if text else "")
        return text

    def _keep(self, entries: tuple[TokenLogprob, ...], text: str) -> None:
        """Keep entries back until their tokens are shown; all of them begin in this chunk's text."""
        begins_at, last = self._pushed_chars, self._pushed_chars + max(len(text) - 1, 0)
        for entry in entries:
            # llama.cpp sends 20 likeliest ones when none are asked for.
            self._logprobs.append((min(begins_at, last), replace(entry, top=entry.top[: self._top_logprobs])))
            begins_at += len(entry.text)
        self._pushed_chars += len(text)

    def _counted(self, deltas: list[Delta]) -> list[Delta]:
        """Turn ranges of pieces into ranges of tokens; each delta takes the entries of the tokens that it shows."""
        counted = []
        for delta in deltas:
            first, self._covered = self._covered, max(self._covered, self._counts[delta.end_token])
            self._shown_chars += len(delta.text)
            entries = []
            while self._logprobs and self._logprobs[0][0] < self._shown_chars:
                entries.append(self._logprobs.popleft()[1])
            counted.append(replace(delta, first_token=first, end_token=self._covered, logprobs=tuple(entries)))
        return counted

    def _finish(self, word: str, matched: str | int | None) -> None:
        """Understand the server's finish_reason. Raises UpstreamError for one that is none."""
        reason = _STOP_REASONS.get(word)
        if reason is None:
            raise UpstreamError(f"The upstream ended with the finish_reason {word[:50]!r}.", code="upstream_malformed")
        if reason is StopReason.EOS and isinstance(matched, str) and matched in self._stop:
            reason, self.stop_string = StopReason.STOP_STRING, matched
        if reason is StopReason.EOS and self._called_tools and self._kind.tool_calls_end_with_stop:
            reason = StopReason.TOOL_CALLS
        self.stop_reason = reason


def _brings_tokens(chunk: UpstreamChunk) -> bool:
    return bool(chunk.text or chunk.reasoning or chunk.tool_calls or chunk.logprobs)
