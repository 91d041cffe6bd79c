"""The KV memory of all sequences: a slot of address space each, of which together no more than a bound is ever used.

A slot that is given back keeps its keys and values. A new prompt that begins with the same ids (the next turn of a
chat, a shared system prompt) takes them over or copies them; the slot that was used least recently goes first.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from generation.engine.kv_budget import BLOCK, common_prefix, rounded

#: Without it Linux refuses to map more than the machine's memory. Python's mmap does not name it.
MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0


@dataclass(eq=False, slots=True, kw_only=True)
class Slot:
    """A sequence's place. ``token_ids`` are those whose keys and values it holds."""

    index: int
    token_ids: list[int] = field(default_factory=list)
    is_free: bool = True
    #: Rises with each release; 0 for one that was never used.
    last_used: int = 0
    #: Positions that its sequence may write; 0 when it has none.
    reserved: int = 0
    #: Positions whose memory may have been written, whole blocks.
    touched: int = 0

    @property
    def held(self) -> int:
        """Its part of the bound, in positions."""
        return max(self.reserved, self.touched)


class KVSlab:
    """Keys and values of shape (layers, slots, kv heads, positions, head size). Used by one thread.

    ``positions`` are the most of one slot, ``tokens`` the most of all. On a CPU the slots' memory is that of the
    positions written; elsewhere all of it is taken at once, so ``slots`` times ``positions`` should be no more than
    ``tokens``.
    """

    def __init__(
        self,
        *,
        layers: int,
        slots: int,
        kv_heads: int,
        positions: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
        tokens: int,
    ) -> None:
        shape = (2, layers, slots, kv_heads, rounded(positions), head_size)
        self._tokens = rounded(tokens)
        self._map, whole = _zeros(shape, dtype, device)
        self._row_bytes = head_size * dtype.itemsize
        self.keys, self.values = whole.unbind(0)
        #: The same by layer, to write keys and values at once: shape (slots, positions, 2, kv heads, head size). With
        #: the indexed places first that takes a quarter of the time.
        self.layers = whole.permute(1, 2, 4, 0, 3, 5).unbind(0)
        self.slots = [Slot(index=index) for index in range(slots)]
        self._position_bytes = 2 * layers * kv_heads * self._row_bytes
        self._uses = 0

    @property
    def nbytes(self) -> int:
        """The most memory that the slab takes."""
        return self._tokens * self._position_bytes if self._map else self.keys.nbytes + self.values.nbytes

    @property
    def used_bytes(self) -> int:
        """Memory of what is reserved or kept now."""
        return sum(slot.held for slot in self.slots) * self._position_bytes

    def known(self, prompt_ids: list[int]) -> int:
        """How many of a prompt's ids `take` would find computed, never all of them."""
        most = max(common_prefix(slot.token_ids, prompt_ids) for slot in self.slots)
        return min(most, len(prompt_ids) - 1)

    def take(self, prompt_ids: list[int], *, reserve: int) -> Slot:
        """Take a free slot that holds as much of the prompt as can be had, but never its last id.

        ``reserve``: positions for prompt and answer. Raises RuntimeError when no slot or not so much memory is free.
        """
        reserve = rounded(reserve)
        free = [slot for slot in self.slots if slot.is_free]
        room = self._tokens - sum(slot.reserved for slot in self.slots)
        if not free or reserve > room:
            raise RuntimeError(
                f"{len(free)} of {len(self.slots)} slots and {room} of {self._tokens} positions are free"
            )
        source = max(self.slots, key=lambda slot: (common_prefix(slot.token_ids, prompt_ids), slot.is_free))
        shared = min(common_prefix(source.token_ids, prompt_ids), len(prompt_ids) - 1)
        slot = min(free, key=lambda slot: slot.last_used)
        # Going on in place costs nothing, but is not worth another prompt's longer memory, unless there is no room.
        if source.is_free and (2 * shared >= len(source.token_ids) or reserve + source.touched > room):
            slot = source
        self._forget(slot, reserve)
        slot.is_free, slot.reserved = False, reserve
        self._evict(sparing=source)
        if slot is not source and shared:
            slot.touched = max(slot.touched, rounded(shared))
            for side in (self.keys, self.values):
                side[:, slot.index, :, :shared] = side[:, source.index, :, :shared]
        slot.token_ids = prompt_ids[:shared]
        return slot

    def touch(self, slot: Slot, end: int) -> None:
        """Note that a slot is about to be written up to this position."""
        slot.touched = max(slot.touched, rounded(end))

    def give_back(self, slot: Slot) -> None:
        """Free a slot; what it holds stays of use, until its memory is needed."""
        self._uses += 1
        slot.is_free, slot.last_used, slot.reserved = True, self._uses, 0
        self._forget(slot, rounded(len(slot.token_ids)))

    def wipe(self, slot: Slot) -> None:
        """Forget all that a slot holds. A NaN left behind would reach the next one through its mask."""
        slot.token_ids = []
        self._forget(slot, 0)

    def _evict(self, *, sparing: Slot) -> None:
        """Forget what free slots hold, the least recently used first, until the bound is kept."""
        over = sum(slot.held for slot in self.slots) - self._tokens
        for slot in sorted((slot for slot in self.slots if slot.is_free), key=lambda slot: slot.last_used):
            if over > 0 and slot is not sparing:
                over -= slot.held
                self.wipe(slot)

    def _forget(self, slot: Slot, keep: int) -> None:
        """Give a slot's memory from position ``keep`` on back to the system; it reads as zero afterwards."""
        start, end = keep, slot.touched
        if start >= end:
            return
        slot.touched = start
        del slot.token_ids[start:]
        if self._map is None or BLOCK * self._row_bytes % mmap.PAGESIZE:
            self.keys[:, slot.index, :, start:end] = 0
            self.values[:, slot.index, :, start:end] = 0
            return
        for offset in self._head_offsets(slot):
            self._map.madvise(mmap.MADV_DONTNEED, offset + start * self._row_bytes, (end - start) * self._row_bytes)

    def _head_offsets(self, slot: Slot) -> Iterator[int]:
        """Where each head of each layer of a slot begins, in bytes from the map's beginning."""
        layers, slots, heads, positions, _ = self.keys.shape
        for layer in range(2 * layers):
            for head in range(heads):
                yield ((layer * slots + slot.index) * heads + head) * positions * self._row_bytes


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> tuple[mmap.mmap | None, torch.Tensor]:
    if device.type != "cpu":
        return None, torch.zeros(shape, dtype=dtype, device=device)
    # Pages that are mapped but never written cost no memory: `torch.zeros` would write them all at once.
    size = torch.Size(shape).numel() * dtype.itemsize
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # A huge page would make 2 MiB of one position.
        mapped.madvise(mmap.MADV_NOHUGEPAGE)
    return mapped, torch.frombuffer(mapped, dtype=dtype).view(shape)
