from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest
import torch

from generation.engine.kv_slab import KVSlab, Slot

#: A head of so many numbers makes a block of positions a page of memory.
PAGED = 8


def make(
    *,
    device: str = "cpu",
    slots: int = 3,
    positions: int = 100,
    tokens: int = 1000,
    head_size: int = 4,
    dtype: torch.dtype = torch.float32,
) -> KVSlab:
    return KVSlab(
        layers=2,
        slots=slots,
        kv_heads=1,
        positions=positions,
        tokens=tokens,
        head_size=head_size,
        dtype=dtype,
        device=torch.device(device),
    )


def fill(slab: KVSlab, slot: Slot, token_ids: list[int]) -> None:
    """Compute ``token_ids``: here each key is its id, each value its negative."""
    slot.token_ids = token_ids
    slab.touch(slot, len(token_ids))
    for position, token_id in enumerate(token_ids):
        slab.keys[:, slot.index, :, position] = token_id
        slab.values[:, slot.index, :, position] = -token_id


def held(slab: KVSlab, slot: Slot, length: int) -> tuple[list[float], list[float]]:
    return slab.keys[1, slot.index, 0, :length, 3].tolist(), slab.values[1, slot.index, 0, :length, 3].tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_memory_is_the_stated_one_and_zero_when_new(dtype: torch.dtype) -> None:
    slab = make(dtype=dtype)
    # Keys and values x 2 layers x 1 head x 1,024 positions (1,000, rounded up) x 4 numbers.
    assert slab.nbytes == 2 * 2 * 1 * 1024 * 4 * dtype.itemsize
    assert slab.used_bytes == 0
    assert slab.keys.count_nonzero() == slab.values.count_nonzero() == 0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_not_spent_when_nothing_is_written() -> None:
    before = resident_bytes()
    slab = make(slots=64, positions=100_000, tokens=6_400_000)
    assert slab.nbytes > 400_000_000
    slab.keys[:, 63, :, :10] = 1
    assert resident_bytes() - before < 50_000_000


def test_slots_are_all_different_when_taken_until_none_is_left() -> None:
    slab = make()
    assert {slab.take([1, 2], reserve=5).index for _ in range(3)} == {0, 1, 2}
    with pytest.raises(RuntimeError, match="0 of 3 slots"):
        slab.take([1, 2], reserve=5)


@pytest.mark.parametrize(
    ("known", "prompt", "shared"),
    [
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4, 5, 6], 4, id="next turn"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 9, 5, 6], 3, id="answer changed"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4], 3, id="same prompt: its last id is computed again"),
        pytest.param([1, 2, 3, 4], [1, 2], 1, id="shorter"),
        pytest.param([1, 2, 3, 4], [9, 2, 3, 4], 0, id="nothing"),
    ],
)
@pytest.mark.parametrize("is_free", [True, False], ids=["ended", "still running"])
def test_common_prefix_is_there_when_an_earlier_sequence_computed_it(
    known: list[int], prompt: list[int], shared: int, is_free: bool
) -> None:
    slab = make()
    earlier = slab.take(known, reserve=100)
    fill(slab, earlier, known)
    if is_free:
        slab.give_back(earlier)
    taken = slab.take(prompt, reserve=100)
    assert taken.token_ids == prompt[:shared]
    assert held(slab, taken, shared) == ([float(i) for i in prompt[:shared]], [-float(i) for i in prompt[:shared]])
    assert is_free or taken is not earlier


def test_long_memory_stays_when_a_new_prompt_shares_only_its_beginning() -> None:
    slab = make()
    first = slab.take([1], reserve=100)
    fill(slab, first, [1, 2, 3, 4, 5, 6, 7, 8])
    slab.give_back(first)
    other = slab.take([1, 2, 99], reserve=100)
    assert (other.token_ids, first.token_ids) == ([1, 2], [1, 2, 3, 4, 5, 6, 7, 8])
    assert other is not first


def test_slot_unused_for_longest_goes_first_when_nothing_is_shared() -> None:
    slab = make()
    a, b, c = (slab.take([1], reserve=100) for _ in range(3))
    for slot in (b, a, c):
        fill(slab, slot, [10 + slot.index] * 5)
        slab.give_back(slot)
    assert slab.take([7, 7], reserve=100) is b
    assert slab.take([7, 7], reserve=100) is a


@pytest.mark.parametrize("head_size", [4, PAGED], ids=["zeroed", "given back to the system"])
def test_nothing_is_left_when_a_slot_is_wiped(head_size: int) -> None:
    slab = make(head_size=head_size)
    slot = slab.take([1], reserve=100)
    fill(slab, slot, [1, 2, 3])
    slab.keys[:, slot.index, :, 2] = torch.nan
    slab.wipe(slot)
    slab.give_back(slot)
    assert slot.token_ids == []
    assert slab.keys.count_nonzero() == slab.values.count_nonzero() == 0
    assert slab.used_bytes == 0


def test_other_slots_keep_their_memory_when_one_is_wiped() -> None:
    slab = make(head_size=PAGED)
    slots = [slab.take([i], reserve=100) for i in range(3)]
    for slot in slots:
        fill(slab, slot, [10 + slot.index] * 5)
    slab.wipe(slots[1])
    assert [held(slab, slot, 5)[0] for slot in slots] == [[10.0] * 5, [0.0] * 5, [12.0] * 5]


def test_room_is_refused_when_the_running_have_reserved_it() -> None:
    slab = make(positions=500, tokens=512)
    slab.take([1], reserve=300)  # 384, in whole blocks
    slab.take([1], reserve=128)
    with pytest.raises(RuntimeError, match="0 of 512 positions are free"):
        slab.take([1], reserve=1)


def test_memory_used_longest_ago_is_dropped_when_the_room_is_needed() -> None:
    slab = make(slots=4, positions=512, tokens=512)
    a, b, c = (slab.take([i], reserve=128) for i in (1, 2, 3))
    for slot in (b, a, c):
        fill(slab, slot, [10 + slot.index] * 100)
        slab.give_back(slot)
    assert slab.used_bytes == 384 * 2 * 2 * 4 * 4
    taken = slab.take([7], reserve=256)
    assert [len(slot.token_ids) for slot in (a, b, c)] == [100, 0, 100]
    assert slab.used_bytes == 512 * 2 * 2 * 4 * 4
    slab.give_back(taken)
    assert slab.used_bytes == 256 * 2 * 2 * 4 * 4  # it wrote nothing


def test_prefix_is_continued_in_place_when_there_is_no_room_for_a_copy() -> None:
    slab = make(slots=2, positions=512, tokens=512)
    first = slab.take([1], reserve=384)
    known = list(range(300))
    fill(slab, first, known)
    slab.give_back(first)
    # Shares little of it, so with more room it would have left it where it is.
    taken = slab.take([*known[:50], 999], reserve=256)
    assert taken is first
    assert held(slab, taken, 50)[0] == [float(i) for i in known[:50]]
    assert slab.used_bytes == 256 * 2 * 2 * 4 * 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_within_the_bound_when_every_slot_was_full_once() -> None:
    before = resident_bytes()
    # 32 MB for 16,384 positions; all slots together could hold 16 times as much.
    slab = make(slots=16, positions=16_384, tokens=16_384, head_size=128)
    assert slab.nbytes == 33_554_432
    most = 0
    for turn in range(32):
        slot = slab.take([turn], reserve=16_384)
        slab.touch(slot, 16_384)
        slab.keys[:, slot.index] = 1
        slab.values[:, slot.index] = 1
        slot.token_ids = [turn] * 16_384
        most = max(most, resident_bytes() - before)
        slab.give_back(slot)
    assert 30_000_000 < most < 50_000_000


def test_known_ids_are_counted_without_taking_anything() -> None:
    slab = make()
    slot = slab.take([1, 2, 3], reserve=100)
    fill(slab, slot, [1, 2, 3])
    assert [slab.known(prompt) for prompt in ([1, 2, 9], [1, 2, 3], [9], [1, 2, 3, 4])] == [2, 2, 0, 3]


def test_all_memory_counts_when_the_device_cannot_promise_it_twice() -> None:
    # "meta" has no memory at all, but takes every path of a GPU.
    slab = make(device="meta", slots=3, positions=128, tokens=384)
    assert slab.nbytes == 2 * 2 * 384 * 4 * 4
    first = slab.take([1, 2, 3], reserve=128)
    slab.touch(first, 3)
    first.token_ids = [1, 2, 3]
    assert slab.take([1, 2, 9], reserve=128).token_ids == [1, 2]
    slab.wipe(first)
    slab.give_back(first)
    assert (first.is_free, first.token_ids, slab.used_bytes) == (True, [], 128 * 2 * 2 * 4 * 4)
