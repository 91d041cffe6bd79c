"""What the rest of the project knows of an engine, and what an engine needs of a model.

In: `Sequence`s with prompt ids. Out: `TokenOutput`s through each sequence's reader. Token ids only, never text.
This module and everything it imports are free of torch, so an upstream-only installation runs without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from generation.engine.sequence import Chunk, Sequence
from generation.output import IdLogprobs


class EngineState(StrEnum):
    """Where an engine is in its life."""

    IDLE = "idle"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Engine(ABC):
    """Generates tokens for many sequences at once on a thread of its own."""

    @abstractmethod
    def start(self) -> None:
        """Begin loading the model in the engine's thread. Idempotent, returns at once."""

    @abstractmethod
    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence; it waits while the model loads.

        Called from any thread. Raises RateLimitError when the queue is full, BackendUnavailableError when the engine
        failed or is closed.
        """

    @abstractmethod
    def cancel(self, sequence: Sequence) -> None:
        """Drop a sequence before its next step. Called from any thread; idempotent, never blocks on a step."""

    @abstractmethod
    def close(self) -> None:
        """End every sequence with ServerShutdownError and free the model. Idempotent; blocks for at most 5 seconds."""

    @property
    @abstractmethod
    def state(self) -> EngineState: ...

    @property
    @abstractmethod
    def message(self) -> str:
        """A sentence for people: what is being loaded, or what went wrong and what to do."""

    @property
    @abstractmethod
    def active(self) -> int:
        """Sequences that wait or run now."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether ``submit`` would take one more sequence now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The id that a step chose for a sequence; ``logprobs`` where the sequence's request wants them."""

    token_id: int
    logprobs: IdLogprobs | None = None


class RunnerLostError(Exception):
    """The device is in no state to run anything more; only loading the model again can help."""


class Runner(Protocol):
    """A loaded model with the KV memory of the sequences that run on it. Used by the engine's thread only."""

    #: Most positions of one sequence.
    context_length: int
    #: Most positions of all sequences that have joined, as `Sequence.reserved` counts them.
    kv_tokens: int
    #: Most chunks that ``step`` takes at once.
    max_batch: int

    @property
    def summary(self) -> str:
        """How much it can hold, for people: sequences, positions, memory."""

    @property
    def kv_bytes(self) -> int:
        """Memory of keys and values that is reserved or kept now."""

    @property
    def kv_bound_bytes(self) -> int:
        """The most that it can be."""

    def known(self, prompt_ids: list[int]) -> int | None:
        """How many of these ids ``join`` would find computed now; None when sequences never share anything."""

    def join(self, sequence: Sequence) -> int:
        """Give a sequence its memory; return how many of its prompt ids are computed already, never all of them."""

    def step(self, chunks: list[Chunk]) -> list[Sampled | None]:
        """Run one forward pass; return the next token of each chunk, None where the prompt goes on.

        When it raises for several chunks, the same step can be made again for each of them, unless it raises
        RunnerLostError.
        """

    def release(self, sequence: Sequence) -> None:
        """Free the sequence's memory at once. Fine for one that never joined."""

    def close(self) -> None:
        """Free the model."""
