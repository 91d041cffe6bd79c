"""A llama-family model for many sequences at once: one forward pass a step, a slot of the slab for each.

A step that fails changes nothing that counts: it can be made again, with some of the sequences or with each alone.
Lives in the engine's thread, because torch's thread count and inference mode belong to a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch

from generation.engine.base import RunnerLostError, Sampled
from generation.engine.kv_budget import BLOCK, rounded
from generation.engine.kv_slab import KVSlab, Slot
from generation.engine.llama import Llama, Span, Step
from generation.engine.llama_weights import LlamaWeights
from generation.engine.sampler import NOT_NUMBERS, Sampler, sample
from generation.engine.sequence import Chunk, Sequence
from generation.exceptions import EngineError


@dataclass(eq=False, slots=True, kw_only=True)
class Place:
    """What a running sequence has. ``is_unsure`` while what its last step wrote is not known to be good."""

    slot: Slot
    sampler: Sampler
    is_unsure: bool = False


class BatchRunner:
    """Runs at most ``slots`` sequences, each at a position of its own. See `generation.engine.base.Runner`.

    ``kv_tokens`` is the most that all of them take together; by default every slot may be full. At most ``int8_rows``
    rows of a step are computed with int8 weights.
    """

    def __init__(
        self,
        weights: LlamaWeights,
        *,
        context_length: int,
        slots: int,
        kv_tokens: int | None = None,
        int8_rows: int = 0,
    ) -> None:
        self.kv_tokens = kv_tokens = rounded(kv_tokens or slots * context_length)
        if weights.device.type != "cpu":
            # Only a CPU's memory can be promised to several slots at once.
            context_length = min(context_length, kv_tokens // slots // BLOCK * BLOCK or BLOCK)
        self.context_length = context_length = min(context_length, kv_tokens)
        self.max_batch = slots
        self._running: dict[Sequence, Place] = {}
        with torch.inference_mode():
            self._llama = llama = Llama(weights, context_length=context_length, int8_rows=int8_rows)
            self._slab = KVSlab(
                layers=llama.layers,
                slots=slots,
                kv_heads=llama.kv_heads,
                positions=context_length,
                head_size=llama.head_size,
                dtype=llama.dtype,
                device=llama.device,
                tokens=kv_tokens,
            )
            self._warm_up()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights and of the KV memory."""
        return self._llama.dtype

    @property
    def summary(self) -> str:
        return (
            f"{self.max_batch} sequences at once, {self.context_length:,} positions each and {self.kv_tokens:,} "
            f"together, {self._llama.weights}, KV memory at most {_size(self._slab.nbytes)}"
        )

    @property
    def kv_bytes(self) -> int:
        return self._slab.used_bytes

    @property
    def kv_bound_bytes(self) -> int:
        return self._slab.nbytes

    def known(self, prompt_ids: list[int]) -> int:
        return self._slab.known(prompt_ids)

    def join(self, sequence: Sequence) -> int:
        if not all(0 <= token_id < self._llama.vocab_size for token_id in sequence.prompt_ids):
            raise EngineError(f"The prompt has ids that are not among the model's {self._llama.vocab_size} tokens.")
        sampler = Sampler(sequence, vocab_size=self._llama.vocab_size, device=self._llama.device)
        with torch.inference_mode():
            slot = self._slab.take(sequence.prompt_ids, reserve=sequence.limit)
        self._running[sequence] = Place(slot=slot, sampler=sampler)
        return len(slot.token_ids)

    def step(self, chunks: list[Chunk]) -> list[Sampled | None]:
        places = [self._running[chunk.sequence] for chunk in chunks]
        for chunk, place in zip(chunks, places, strict=True):
            place.is_unsure = True
            self._slab.touch(place.slot, chunk.sequence.computed + len(chunk.token_ids))
        # Newest ids first and by slot, so that neighbours are computed together.
        order = sorted(range(len(chunks)), key=lambda i: (chunks[i].is_prefill, places[i].slot.index))
        try:
            with torch.inference_mode():
                drawn = self._compute([chunks[i] for i in order], [places[i] for i in order])
        except torch.AcceleratorError as exc:
            raise RunnerLostError(str(exc)) from exc
        for chunk, place in zip(chunks, places, strict=True):
            place.is_unsure = False
            place.slot.token_ids[chunk.sequence.computed :] = chunk.token_ids
        return [drawn.get(chunk.sequence) for chunk in chunks]

    def release(self, sequence: Sequence) -> None:
        place = self._running.pop(sequence, None)
        if place is None:
            return
        with torch.inference_mode():
            if place.is_unsure:
                self._slab.wipe(place.slot)
            self._slab.give_back(place.slot)

    def close(self) -> None:
        self._running.clear()
        del self._llama, self._slab

    def _compute(self, chunks: list[Chunk], places: list[Place]) -> dict[Sequence, Sampled]:
        """One forward pass, and the next id of each sequence that wants one."""
        spans = [
            Span(
                slot=place.slot.index,
                start=chunk.sequence.computed,
                count=len(chunk.token_ids),
                is_prefill=chunk.is_prefill,
            )
            for chunk, place in zip(chunks, places, strict=True)
        ]
        last_rows = self._forward([token_id for chunk in chunks for token_id in chunk.token_ids], spans)
        # A chunk's last position sees all the others: what is wrong with one of them shows there.
        if not last_rows.isfinite().all():
            raise EngineError(NOT_NUMBERS)
        wanting = [i for i, chunk in enumerate(chunks) if chunk.wants_token]
        if not wanting:
            return {}
        drawn = sample([places[i].sampler for i in wanting], self._llama.logits(last_rows[wanting]))
        return {chunks[i].sequence: sampled for i, sampled in zip(wanting, drawn, strict=True)}

    def _forward(self, token_ids: list[int], spans: list[Span]) -> torch.Tensor:
        """The hidden state of each span's last position."""
        step = Step(spans, self._slab.keys)
        hidden = self._llama(torch.tensor(token_ids, device=self._llama.device), step, self._slab)
        return hidden[[end - 1 for end in accumulate(span.count for span in spans)]]

    def _warm_up(self) -> None:
        """Pay for the kernels' first use at load, not in somebody's first token."""
        slot = self._slab.slots[0]
        self._slab.touch(slot, 9)
        self._llama.logits(self._forward([0] * 8, [Span(slot=0, start=0, count=8, is_prefill=True)]))
        self._llama.logits(self._forward([0], [Span(slot=0, start=8, count=1)]))
        self._slab.wipe(slot)


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"
