"""Whose turn it is: sequences in, batches for one round of steps out.

Every sequence that decodes gets one step a round, and prompts together no more than one chunk, so that a long prompt
never stalls the others for longer. First come, first served; sequences join and leave between steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from generation.engine.base import Runner
from generation.engine.kv_budget import common_prefix
from generation.engine.sequence import Sequence

#: So many prompt ids are worth a round's wait for another that computes them: fewer cost next to nothing in a batch.
WORTH_WAITING = 16


class Scheduler:
    """The waiting and the running. Used by the engine's thread only."""

    def __init__(self, *, max_sequences: int) -> None:
        self.max_sequences = max_sequences
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    def __iter__(self) -> Iterator[Sequence]:
        yield from [*self._running, *self._waiting]

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def running(self) -> list[Sequence]:
        """Those that have left the queue, in that order."""
        return list(self._running)

    @property
    def queue_length(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        """Put a sequence at the end of the queue."""
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, wherever it is."""
        if sequence in self._running:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)

    def next_round(self, runner: Runner, *, prefill_chunk: int, now: float) -> list[list[Sequence]]:
        """Let the waiting join where there is room; return the sequences to step, in batches; none if nobody can.

        ``prefill_chunk``: prompt ids a round. The first prompt takes what it needs of it, others join while all that
        is left of them fits.
        """
        self._admit(runner.kv_tokens, now)
        stepping = [sequence for sequence in self._running if not (sequence.is_prefilling or sequence.reader.is_full)]
        room = prefill_chunk
        prefilling: list[Sequence] = []
        for sequence in self._running:
            if not sequence.is_prefilling:
                continue
            known = runner.known(sequence.prompt_ids) if sequence.cached is None else None
            left = sequence.uncomputed - (known or 0)
            if (room == prefill_chunk or left <= room) and not (
                known is not None and _is_shared(sequence, prefilling, known)
            ):
                stepping.append(sequence)
                room -= left
            prefilling.append(sequence)
        return [stepping[start : start + runner.max_batch] for start in range(0, len(stepping), runner.max_batch)]

    def _admit(self, kv_tokens: int, now: float) -> None:
        """Let the first in line join while there is a place and memory. Nobody overtakes one that needs much."""
        room = kv_tokens - sum(sequence.reserved for sequence in self._running)
        while self._waiting and len(self._running) < self.max_sequences and self._waiting[0].reserved <= room:
            sequence = self._waiting.popleft()
            sequence.begun_at = now
            self._running.append(sequence)
            room -= sequence.reserved


def _is_shared(sequence: Sequence, prefilling: list[Sequence], known: int) -> bool:
    """Whether one of ``prefilling`` is about to compute more of this prompt than is known of it."""
    most = len(sequence.prompt_ids) - 1
    wanted = known + min(WORTH_WAITING, most - known)
    return most > known and any(
        min(common_prefix(other.prompt_ids, sequence.prompt_ids), most) >= wanted for other in prefilling
    )
