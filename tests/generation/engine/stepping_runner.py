"""A runner without a model whose steps the test lets through one by one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from generation.engine.base import Sampled

if TYPE_CHECKING:
    from generation.engine.sequence import Chunk, Sequence

#: Far more steps than any test takes.
PLENTY = 10_000
WAIT_S = 20


class SteppingRunner:
    """Answers 100, 101, 102 … to every sequence. ``allow(n)`` lets n steps through; ``entered`` counts those begun.

    ``failures`` maps the number of a step (0-based) to what it raises.
    """

    summary = "any number of sequences"
    kv_bytes = 0
    kv_bound_bytes = 1000

    def __init__(
        self,
        *,
        allowed: int = PLENTY,
        context_length: int = 512,
        failures: dict[int, BaseException] | None = None,
        max_batch: int = 1,
        cached: int = 0,
        kv_tokens: int = 100_000,
    ) -> None:
        self.context_length = context_length
        self.kv_tokens = kv_tokens
        self.max_batch = max_batch
        self._cached = cached
        #: A sequence whose decode steps fail, whoever is with it.
        self.guilty: Sequence | None = None
        self.steps: list[tuple[Sequence, list[int]]] = []
        self.batches: list[int] = []
        self.released: list[Sequence] = []
        self.closed = False
        self._failures = failures or {}
        self._allowed = threading.Semaphore(allowed)
        self._entered = threading.Semaphore(0)

    def allow(self, steps: int = PLENTY) -> None:
        for _ in range(steps):
            self._allowed.release()

    def wait_until_entered(self, steps: int) -> None:
        """Wait until this many further steps have begun."""
        for _ in range(steps):
            assert self._entered.acquire(timeout=WAIT_S), "the engine makes no steps"

    def known(self, prompt_ids: list[int]) -> int:
        return self._cached

    def join(self, sequence: Sequence) -> int:
        return self._cached

    def step(self, chunks: list[Chunk]) -> list[Sampled | None]:
        number = len(self.batches)
        self.batches.append(len(chunks))
        self.steps += [(chunk.sequence, chunk.token_ids) for chunk in chunks]
        self._entered.release()
        assert self._allowed.acquire(timeout=WAIT_S), "the test allows no step"
        if number in self._failures:
            raise self._failures[number]
        for chunk in chunks:
            if chunk.sequence is self.guilty and not chunk.sequence.is_prefilling:
                raise RuntimeError("guilty")
        return [
            Sampled(token_id=100 + len(chunk.sequence.token_ids)) if chunk.wants_token else None for chunk in chunks
        ]

    def release(self, sequence: Sequence) -> None:
        self.released.append(sequence)

    def close(self) -> None:
        self.closed = True
