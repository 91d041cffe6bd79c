"""The answers to one request, read as one: whichever has something to hand on comes next, none twice before the others.

In: the `Generation`s of a request. Out: their deltas and ends, one at a time. Nothing is buffered here: each generation
holds back its next delta until it is taken. The failure of one ends all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from generation.exceptions import GenerationError
from generation.output import Delta, Usage
from generation.streaming.generation import Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceEvent:
    """A delta of one generation, or with None its good end."""

    generation: Generation
    delta: Delta | None


class Choices:
    """Reads the generations of one request; they share id, time and model."""

    def __init__(self, generations: Sequence[Generation]) -> None:
        self.all = tuple(generations)
        self._open = list(generations)

    def begin(self) -> None:
        """Let every backend begin. Idempotent."""
        for generation in self._open:
            generation.begin()

    async def admit(self, patience_s: float) -> None:
        """Wait, no longer than ``patience_s``, until the backends have taken the requests on.

        Raises the GenerationError of one that refused, all being closed then; so it can still be told by a status.
        """
        try:
            refused = await self._refused(patience_s)
            if refused is not None:
                await refused.next_delta()
        except StopAsyncIteration:
            return  # stopped meanwhile, which its stream will tell
        except GenerationError as exc:
            for other in self._open:
                other.fail(exc)
            raise
        except asyncio.CancelledError:
            self.close()
            raise

    async def next_event(self, silence_s: float | None = None) -> ChoiceEvent | None:
        """Return what comes next, or None when there was nothing for ``silence_s`` seconds.

        Raises StopAsyncIteration when all have ended, GenerationError when one has failed: all are closed then. A
        cancellation closes all and goes on.
        """
        if not self._open:
            raise StopAsyncIteration
        try:
            generation = await self._readable(silence_s)
            if generation is None:
                return None
            return await self._read(generation, silence_s)
        except GenerationError as exc:
            for other in self._open:
                other.fail(exc)
            raise
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        """End those that have not ended. Synchronous, idempotent, thread-safe."""
        for generation in self.all:
            generation.close()

    @property
    def usage(self) -> Usage | None:
        """The tokens of all answers, each prompt counted once; None when one does not know its tokens."""
        return joined_usage([(generation.starts_prompt, generation.usage) for generation in self.all])

    async def _refused(self, patience_s: float) -> Generation | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for generation in self.all:
                    if not await generation.admitted():
                        return generation
        return None

    async def _readable(self, silence_s: float | None) -> Generation | None:
        """The one to read: with several, the first that can be read of those that have waited longest."""
        if len(self._open) == 1:
            return self._open[0]
        self.begin()
        while True:
            for generation in self._open:
                if generation.readable:
                    return generation
            signals = [signal for generation in self._open for signal in generation.signals]
            done, _ = await asyncio.wait(signals, timeout=silence_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return None

    async def _read(self, generation: Generation, silence_s: float | None) -> ChoiceEvent | None:
        try:
            delta = await generation.next_delta(silence_s)
        except StopAsyncIteration:
            self._open.remove(generation)
            return ChoiceEvent(generation=generation, delta=None)
        if delta is None:
            return None
        if len(self._open) > 1:
            self._open.remove(generation)
            self._open.append(generation)
        return ChoiceEvent(generation=generation, delta=delta)


def joined_usage(usages: Sequence[tuple[bool, Usage | None]]) -> Usage | None:
    """Add up the usages of answers; the flag says whose prompt counts. None when one is None."""
    known = [(counts_prompt, usage) for counts_prompt, usage in usages if usage is not None]
    if len(known) < len(usages) or not known:
        return None
    prompts = [usage for counts_prompt, usage in known if counts_prompt]
    cached = [usage.cached_tokens for usage in prompts]
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in prompts),
        completion_tokens=sum(usage.completion_tokens for _, usage in known),
        cached_tokens=None if None in cached else sum(count for count in cached if count is not None),
    )
