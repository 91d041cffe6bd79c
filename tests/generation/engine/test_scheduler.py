from __future__ import annotations

import itertools

import pytest

from generation.engine.scheduler import Scheduler
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.request import SamplingParams
from tests.generation.engine.stepping_runner import SteppingRunner


@pytest.fixture
async def make():  # type: ignore[no-untyped-def]
    reader = TokenReader()

    prompts = itertools.count()

    def make(*, decoding: bool = True, prompt: list[int] | None = None, limit: int = 10) -> Sequence:
        sequence = Sequence(
            prompt_ids=prompt or [next(prompts), 1], sampling=SamplingParams(), end_ids=frozenset(), reader=reader
        )
        sequence.limit = limit
        if decoding:
            sequence.cached, sequence.computed = 0, len(sequence.prompt_ids)
        return sequence

    return make


def test_every_running_sequence_gets_one_step_when_a_round_is_made(make) -> None:  # type: ignore[no-untyped-def]
    scheduler = Scheduler(max_sequences=8)
    a, b, c = make(), make(), make()
    for sequence in (a, b, c):
        scheduler.add(sequence)
    assert scheduler.next_round(SteppingRunner(max_batch=1), prefill_chunk=8, now=0.0) == [[a], [b], [c]]
    assert scheduler.next_round(SteppingRunner(max_batch=2), prefill_chunk=8, now=0.0) == [[a, b], [c]]


@pytest.mark.parametrize(
    ("prefill_chunk", "prompts"),
    [
        pytest.param(1, 1, id="the first comer's does not even fit"),
        pytest.param(3, 1, id="the second would have to be cut"),
        pytest.param(4, 2, id="two fit"),
        pytest.param(100, 3, id="all fit"),
    ],
)
def test_prompts_share_one_chunk_a_round_when_several_wait(make, prefill_chunk: int, prompts: int) -> None:  # type: ignore[no-untyped-def]
    scheduler = Scheduler(max_sequences=8)
    new = [make(decoding=False) for _ in range(3)]  # prompts of two ids
    decoding = make()
    for sequence in (*new, decoding):
        scheduler.add(sequence)
    assert scheduler.next_round(SteppingRunner(max_batch=8), prefill_chunk=prefill_chunk, now=0.0) == [
        [decoding, *new[:prompts]]
    ]


def test_next_prompt_gets_its_turn_when_the_first_is_computed(make) -> None:  # type: ignore[no-untyped-def]
    scheduler = Scheduler(max_sequences=8)
    new, newer, decoding = make(decoding=False), make(decoding=False), make()
    for sequence in (new, newer, decoding):
        scheduler.add(sequence)
    assert scheduler.next_round(SteppingRunner(max_batch=1), prefill_chunk=2, now=0.0) == [[decoding], [new]]
    new.computed = 2
    assert scheduler.next_round(SteppingRunner(max_batch=1), prefill_chunk=2, now=0.0) == [[new], [decoding], [newer]]


def test_next_in_line_joins_when_one_leaves(make) -> None:  # type: ignore[no-untyped-def]
    scheduler = Scheduler(max_sequences=2)
    a, b, c = make(), make(), make()
    for sequence in (a, b, c):
        scheduler.add(sequence)
    assert scheduler.next_round(SteppingRunner(max_batch=1), prefill_chunk=8, now=1.0) == [[a], [b]]
    assert (a.begun_at, b.begun_at, c.begun_at) == (1.0, 1.0, None)
    scheduler.remove(a)
    assert scheduler.next_round(SteppingRunner(max_batch=1), prefill_chunk=8, now=2.0) == [[b], [c]]
    assert (b.begun_at, c.begun_at) == (1.0, 2.0)


def test_waiting_sequence_is_forgotten_when_removed(make) -> None:  # type: ignore[no-untyped-def]
    scheduler = Scheduler(max_sequences=1)
    a, b = make(), make()
    scheduler.add(a)
    scheduler.add(b)
    scheduler.next_round(SteppingRunner(max_batch=1), prefill_chunk=8, now=0.0)
    scheduler.remove(b)
    assert list(scheduler) == [a]
    assert len(scheduler) == 1


def test_next_in_line_waits_when_its_memory_is_not_free(make) -> None:  # type: ignore[no-untyped-def]
    scheduler, runner = Scheduler(max_sequences=8), SteppingRunner(max_batch=8, kv_tokens=512)
    small, big, smaller = make(limit=130), make(limit=384), make(limit=1)
    for sequence in (small, big, smaller):
        scheduler.add(sequence)
    # The last would fit, but overtakes nobody: the big one would wait as long as small ones come.
    assert scheduler.next_round(runner, prefill_chunk=8, now=0.0) == [[small]]
    assert (scheduler.running, scheduler.queue_length) == ([small], 2)
    scheduler.remove(small)
    assert scheduler.next_round(runner, prefill_chunk=8, now=0.0) == [[big, smaller]]


SHARED = list(range(100, 120))


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        pytest.param([*SHARED, 1], [*SHARED, 2], True, id="long beginning shared"),
        pytest.param([1, 2, 3], [1, 2, 3], True, id="the same"),
        pytest.param([*SHARED[:15], 1, 1], [*SHARED[:15], 2, 2], False, id="little shared"),
        pytest.param([1], [1], False, id="the same, but its last id is always computed"),
    ],
)
def test_prompt_waits_when_another_is_computing_its_beginning(
    make, first: list[int], second: list[int], waits: bool
) -> None:  # type: ignore[no-untyped-def]
    scheduler, runner = Scheduler(max_sequences=8), SteppingRunner(max_batch=8)
    a, b = make(decoding=False, prompt=first), make(decoding=False, prompt=second)
    scheduler.add(a)
    scheduler.add(b)
    assert scheduler.next_round(runner, prefill_chunk=100, now=0.0) == [[a] if waits else [a, b]]
    a.cached, a.computed = 0, len(a.prompt_ids)
    assert scheduler.next_round(runner, prefill_chunk=100, now=0.0) == [[a, b]]


def test_prompt_waits_no_longer_when_the_other_has_gone(make) -> None:  # type: ignore[no-untyped-def]
    scheduler, runner = Scheduler(max_sequences=8), SteppingRunner(max_batch=8)
    a, b = make(decoding=False, prompt=SHARED), make(decoding=False, prompt=SHARED)
    scheduler.add(a)
    scheduler.add(b)
    assert scheduler.next_round(runner, prefill_chunk=100, now=0.0) == [[a]]
    scheduler.remove(a)
    assert scheduler.next_round(runner, prefill_chunk=100, now=0.0) == [[b]]


def test_what_is_known_already_does_not_count_when_prompts_share_a_chunk(make) -> None:  # type: ignore[no-untyped-def]
    scheduler, runner = Scheduler(max_sequences=8), SteppingRunner(max_batch=8, cached=30)
    a, b = make(decoding=False, prompt=list(range(34))), make(decoding=False, prompt=list(range(50, 84)))
    scheduler.add(a)
    scheduler.add(b)
    assert scheduler.next_round(runner, prefill_chunk=8, now=0.0) == [[a, b]]
