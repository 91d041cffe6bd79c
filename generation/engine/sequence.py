"""A request's life in the engine: prompt ids in, sampled ids appended one by one until a reason to stop.

Made by a backend, owned by the engine's thread from ``submit`` on; other threads may only read it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from generation.engine.grammar import Constraint
from generation.engine.kv_budget import rounded
from generation.engine.token_queue import TokenReader
from generation.exceptions import GenerationError
from generation.output import StopReason
from generation.request import SamplingParams


class Sequence:
    """One answer being generated.

    ``sampling`` must be complete: a None in it means "off", not "the default". ``end_ids`` are the model's end
    tokens, ``stop_ids`` the request's own. ``constraint`` belongs to this sequence alone.
    """

    def __init__(
        self,
        *,
        prompt_ids: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        reader: TokenReader,
        stop_ids: frozenset[int] = frozenset(),
        constraint: Constraint | None = None,
        on_stopped: Callable[[float, int], None] | None = None,
    ) -> None:
        self.prompt_ids = prompt_ids
        self.sampling = sampling
        self.end_ids = end_ids
        self.stop_ids = stop_ids
        self.constraint = constraint
        self.reader = reader
        self.on_stopped = on_stopped
        self.token_ids: list[int] = []
        #: Positions whose keys and values are computed.
        self.computed = 0
        #: Prompt positions that it took over from earlier sequences; None until it has memory.
        self.cached: int | None = None
        #: Positions that it may take, and has reserved; set by the engine's thread.
        self.limit = 0
        #: Monotonic time it left the queue.
        self.begun_at: float | None = None
        #: Set by any thread through ``Engine.cancel``; looked at before every step.
        self.cancelled = False
        #: Set once, when it ends.
        self.stop_reason: StopReason | None = None
        #: Set before the last output when that is an error.
        self.error: GenerationError | None = None

    @property
    def is_prefilling(self) -> bool:
        """Whether prompt ids are left to compute."""
        return self.uncomputed > 0

    @property
    def uncomputed(self) -> int:
        """How many prompt ids are left to compute."""
        return max(0, len(self.prompt_ids) - self.computed)

    @property
    def reserved(self) -> int:
        """Its part of the KV memory, in positions."""
        return rounded(self.limit)

    def next_chunk(self, prefill_chunk: int) -> Chunk:
        """The ids to compute in the next step: up to ``prefill_chunk`` of the prompt, then one at a time."""
        if self.is_prefilling:
            end = min(self.computed + prefill_chunk, len(self.prompt_ids))
            return Chunk(
                sequence=self,
                token_ids=self.prompt_ids[self.computed : end],
                is_prefill=True,
                wants_token=end == len(self.prompt_ids),
            )
        return Chunk(sequence=self, token_ids=self.token_ids[-1:], is_prefill=False, wants_token=True)

    def append(self, token_id: int) -> StopReason | None:
        """Take a sampled id; return why the sequence ends with it, or None. On the last allowed id an end wins."""
        self.token_ids.append(token_id)
        if token_id in self.stop_ids:
            return StopReason.STOP_TOKEN
        # A constrained sequence ends when nothing more may be said, whatever else was asked for.
        if token_id in self.end_ids and not (self.sampling.ignore_eos and self.constraint is None):
            return StopReason.EOS
        if len(self.token_ids) == self.sampling.max_tokens:
            return StopReason.LENGTH
        if len(self.prompt_ids) + len(self.token_ids) >= self.limit:
            return StopReason.CONTEXT
        return None

    def forbidden_ids(self) -> list[int]:
        """Ids that must not be sampled now because ``min_tokens`` is not reached."""
        if len(self.token_ids) >= self.sampling.min_tokens:
            return []
        return list(itertools.chain(self.end_ids, self.stop_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The part of a sequence that one step computes; ``wants_token`` when it reaches the end of what is known."""

    sequence: Sequence
    token_ids: list[int]
    is_prefill: bool
    wants_token: bool
