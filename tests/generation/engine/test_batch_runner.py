"""The engine over a real, tiny model in batches: each sequence gets what it would get alone, whoever else is there."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from generation.engine.base import Sampled
from generation.engine.batch_runner import BatchRunner
from generation.engine.sequence import Chunk
from generation.engine.torch_engine import TorchEngine
from generation.exceptions import EngineError
from generation.output import StopReason
from tests.generation.engine.generating import (
    PROMPT,
    cancelled,
    finished,
    generated,
    greedy_by_library,
    llama_weights,
    sequence,
    stepped,
)
from tests.tiny_model import CONTEXT_LENGTH, END_ID

#: Its embedding is not a number in `poisoned_engine`.
POISON = 77
PROMPTS = [PROMPT[:length] for length in (1, 3, 4, 5, 8, 10)] + [[1, 5] * 70, [9, 8, 7] * 60]


def load(folder: Path, *, slots: int = 8, poison: int | None = None) -> BatchRunner:
    # One thread: on a busy machine two wait for each other longer than they work.
    torch.set_num_threads(1)
    runner = BatchRunner(llama_weights(folder), context_length=CONTEXT_LENGTH, slots=slots)
    if poison is not None:
        with torch.inference_mode():
            runner._llama._embedding[poison] = math.nan
    return runner


@pytest.fixture
def engine(tiny_folder: Path, library_model: Any) -> Iterator[TorchEngine]:
    # After the library's own model: two loads at once would break each other.
    engine = TorchEngine(lambda: load(tiny_folder), prefill_chunk=4)
    engine.start()
    yield engine
    engine.close()


@pytest.fixture
def poisoned_engine(tiny_folder: Path, library_model: Any) -> Iterator[TorchEngine]:
    engine = TorchEngine(lambda: load(tiny_folder, slots=2, poison=POISON), max_sequences=2, prefill_chunk=4)
    engine.start()
    yield engine
    engine.close()


async def test_greedy_ids_equal_the_librarys_when_many_run_together(engine: TorchEngine, library_model: Any) -> None:
    ids = await asyncio.gather(*(generated(engine, prompt=prompt, temperature=0.0) for prompt in PROMPTS))
    assert ids == [greedy_by_library(library_model, prompt) for prompt in PROMPTS]


async def test_greedy_ids_equal_the_librarys_when_others_join_and_leave(
    engine: TorchEngine, library_model: Any
) -> None:
    lengths = [5, 17, 40, 3, 60, 1, 25, 8, 33, 12, 50, 2]
    ids = await asyncio.gather(
        *(
            generated(engine, prompt=PROMPTS[i % len(PROMPTS)], temperature=0.0, max_tokens=length)
            for i, length in enumerate(lengths)
        )
    )
    for i, length in enumerate(lengths):
        assert ids[i] == greedy_by_library(library_model, PROMPTS[i % len(PROMPTS)], tokens=length), f"sequence {i}"


@pytest.mark.parametrize("threads", [1, 2, 3])
async def test_logits_are_the_same_to_the_last_bit_when_alone_and_in_a_batch(
    tiny_folder: Path, library_model: Any, threads: int
) -> None:
    # No two share a beginning: what is taken over was computed in other pieces.
    prompts = [[10 + i, *prompt] for i, prompt in enumerate(PROMPTS)]
    runner = load(tiny_folder)
    torch.set_num_threads(threads)
    together = [sequence(prompt, seed=i, temperature=1.0) for i, prompt in enumerate(prompts)]
    for tested in together:
        stepped(runner, [tested])
    for _ in range(20):
        stepped(runner, together)
    alone_runner = load(tiny_folder, slots=1)
    torch.set_num_threads(threads)
    for i, prompt in enumerate(prompts):
        alone = sequence(prompt, seed=i, temperature=1.0)
        for _ in range(21):
            stepped(alone_runner, [alone])
        slot, length = runner._running[together[i]].slot, alone.computed
        assert alone.token_ids == together[i].token_ids
        for side in ("keys", "values"):
            batched, single = (getattr(one._slab, side) for one in (runner, alone_runner))
            assert torch.equal(batched[:, slot.index, :, :length], single[:, 0, :, :length]), f"{side} of sequence {i}"
        alone_runner.release(alone)
    torch.set_num_threads(1)


async def test_seed_gives_the_same_ids_when_alone_and_beside_others(engine: TorchEngine) -> None:
    alone = await generated(engine, temperature=1.0, seed=11)
    beside, *others = await asyncio.gather(
        generated(engine, temperature=1.0, seed=11),
        generated(engine, temperature=1.5, seed=12, prompt=PROMPT[:3]),
        generated(engine, temperature=0.7, seed=None, top_k=5),
        generated(engine, temperature=1.0, seed=13, max_tokens=7),
    )
    assert beside == alone
    assert all(other != alone for other in others)


async def test_end_token_does_not_come_when_fewer_than_min_tokens_are_made(engine: TorchEngine) -> None:
    bias = {END_ID: 50.0}
    assert await generated(engine, temperature=0.0, logit_bias=bias) == [END_ID]
    ids = await generated(engine, temperature=0.0, logit_bias=bias, min_tokens=5)
    assert len(ids) == 6
    assert ids.index(END_ID) == 5


async def test_prefix_is_taken_over_when_the_next_turn_comes(engine: TorchEngine, library_model: Any) -> None:
    first = await finished(engine, sequence(temperature=0.0, max_tokens=20))
    assert first.cached == 0
    prompt = [*PROMPT, *first.token_ids, 30, 31, 32]
    second = await finished(engine, sequence(prompt, temperature=0.0))
    # All of the first turn but its last id, which was sampled and never computed.
    assert second.cached == len(PROMPT) + 19
    assert second.token_ids == greedy_by_library(library_model, prompt)


LONG = [(7 * i) % 250 + 3 for i in range(300)]


def computed_alone(folder: Path, prompt: list[int], **sampling: Any) -> list[int]:
    """What the model says to ``prompt`` with nobody else there, before or beside it."""
    runner, alone = load(folder, slots=1), sequence(prompt, **sampling)
    alone.limit = CONTEXT_LENGTH
    while len(alone.token_ids) < 40 and (not alone.token_ids or alone.token_ids[-1] != END_ID):
        stepped(runner, [alone])
    return alone.token_ids


@pytest.mark.parametrize("prefill_chunk", [1, 3, 50, 64, 100])
async def test_prompt_is_the_same_to_the_last_bit_when_computed_in_other_pieces(
    tiny_folder: Path, library_model: Any, prefill_chunk: int
) -> None:
    slabs = []
    for chunk in (256, prefill_chunk):
        runner, tested = load(tiny_folder, slots=1), sequence(LONG, temperature=1.0, seed=3)
        while not tested.token_ids:
            stepped(runner, [tested], prefill_chunk=chunk)
        slabs.append(runner._slab)
    for side in ("keys", "values"):
        whole, pieces = (getattr(slab, side)[:, 0, :, : len(LONG)] for slab in slabs)
        assert torch.equal(whole, pieces), side


@pytest.mark.parametrize(
    ("length", "rows"), [pytest.param(10, 10 + 3, id="short"), pytest.param(300, 300 + 3, id="longer than a chunk")]
)
async def test_prompt_is_computed_once_when_several_ask_it_at_once(
    tiny_folder: Path, library_model: Any, length: int, rows: int
) -> None:
    runner = load(tiny_folder)
    computed: list[int] = []
    step = runner.step

    def counting(chunks: list[Chunk]) -> list[Sampled | None]:
        computed.extend(len(chunk.token_ids) for chunk in chunks if chunk.is_prefill)
        return step(chunks)

    runner.step = counting  # type: ignore[method-assign]
    engine = TorchEngine(lambda: runner)
    prompt = LONG[:length]
    four = [sequence(prompt, temperature=1.0, seed=seed) for seed in range(4)]
    ends = [asyncio.create_task(finished(engine, tested)) for tested in four]
    await asyncio.sleep(0)
    engine.start()
    await asyncio.gather(*ends)
    engine.close()
    # The others compute the last id only, to have something to sample from.
    assert sum(computed) == rows
    assert [tested.cached for tested in four] == [0, *[length - 1] * 3]
    for seed, tested in enumerate(four):
        assert tested.token_ids == computed_alone(tiny_folder, prompt, temperature=1.0, seed=seed), f"seed {seed}"


async def test_system_prompt_is_computed_once_when_strangers_share_it(tiny_folder: Path, library_model: Any) -> None:
    system = LONG[:150]
    prompts = [[*system, *tail] for tail in ([5, 6, 7], [8], [5, 6, 9, 10, 11, 12], [30] * 20)]
    engine = TorchEngine(lambda: load(tiny_folder))
    strangers = [sequence(prompt, temperature=1.0, seed=i) for i, prompt in enumerate(prompts)]
    ends = [asyncio.create_task(finished(engine, tested)) for tested in strangers]
    await asyncio.sleep(0)
    engine.start()
    await asyncio.gather(*ends)
    engine.close()
    assert [tested.cached for tested in strangers] == [0, 150, 152, 150]
    for i, tested in enumerate(strangers):
        assert tested.token_ids == computed_alone(tiny_folder, prompts[i], temperature=1.0, seed=i), f"stranger {i}"


async def test_others_go_on_when_the_one_that_computed_for_them_leaves(tiny_folder: Path, library_model: Any) -> None:
    engine = TorchEngine(lambda: load(tiny_folder), prefill_chunk=20)
    first, second = (sequence(LONG, temperature=0.0, max_tokens=10) for _ in range(2))
    engine.submit(first)
    second_ends = asyncio.create_task(finished(engine, second))
    await asyncio.sleep(0)
    engine.start()
    engine.cancel(first)
    await second_ends
    engine.close()
    assert second.token_ids == computed_alone(tiny_folder, LONG, temperature=0.0)[:10]


async def test_prefix_is_shared_when_another_with_the_same_beginning_still_runs(
    tiny_folder: Path, library_model: Any
) -> None:
    runner = load(tiny_folder)
    running, joining = sequence(temperature=0.0), sequence([*PROMPT[:8], 20, 21], temperature=0.0)
    for _ in range(5):
        stepped(runner, [running])
    stepped(runner, [joining])
    for _ in range(10):
        stepped(runner, [running, joining])
    assert (running.cached, joining.cached) == (0, 8)
    assert running.token_ids == greedy_by_library(library_model, PROMPT, tokens=15)
    assert joining.token_ids == greedy_by_library(library_model, joining.prompt_ids, tokens=11)


@pytest.mark.parametrize(
    "bad_prompt",
    [
        pytest.param([1, POISON], id="bad values at the prompt's end"),
        pytest.param([1, POISON, *PROMPT * 3], id="bad values in an early chunk"),
        pytest.param([1, 10_000_000], id="id out of range"),
        pytest.param([1, -1], id="negative id"),
    ],
)
async def test_only_the_guilty_ends_when_a_prompt_is_poisoned(
    poisoned_engine: TorchEngine, library_model: Any, bad_prompt: list[int]
) -> None:
    neighbour = asyncio.create_task(generated(poisoned_engine, temperature=0.0, max_tokens=60))
    for _ in range(3):
        bad = await finished(poisoned_engine, sequence(bad_prompt))
        assert (bad.stop_reason, bad.token_ids) == (StopReason.ENGINE_ERROR, [])
        assert isinstance(bad.error, EngineError)
    assert await neighbour == greedy_by_library(library_model, PROMPT, tokens=60)
    # Whatever the bad one left in its slot, its successor there does not see it.
    after = await asyncio.gather(
        *(generated(poisoned_engine, prompt=prompt, temperature=0.0) for prompt in ([5, 6], [1, 9]))
    )
    assert after == [greedy_by_library(library_model, prompt) for prompt in ([5, 6], [1, 9])]


async def test_only_the_guilty_ends_when_a_decode_step_is_poisoned(
    poisoned_engine: TorchEngine, library_model: Any
) -> None:
    good, bad = sequence(temperature=0.0), sequence([1, 2], temperature=0.0, logit_bias={POISON: 1000.0})
    await asyncio.gather(finished(poisoned_engine, good), finished(poisoned_engine, bad))
    assert (bad.stop_reason, bad.token_ids) == (StopReason.ENGINE_ERROR, [POISON])
    assert good.token_ids == greedy_by_library(library_model, PROMPT)


async def test_seeded_neighbour_is_unharmed_when_a_step_is_made_again(poisoned_engine: TorchEngine) -> None:
    alone = await generated(poisoned_engine, temperature=1.0, seed=4)
    assert POISON not in alone
    beside, bad = await asyncio.gather(
        finished(poisoned_engine, sequence(temperature=1.0, seed=4)),
        finished(poisoned_engine, sequence([1, 2], temperature=0.0, logit_bias={POISON: 1000.0})),
    )
    assert bad.stop_reason is StopReason.ENGINE_ERROR
    assert beside.token_ids == alone


async def test_slots_are_all_free_when_sequences_were_cancelled_at_every_step(
    engine: TorchEngine, library_model: Any
) -> None:
    kept = asyncio.create_task(generated(engine, temperature=0.0, max_tokens=200))
    for steps in range(30):
        dropped = sequence(PROMPTS[steps % len(PROMPTS)], max_tokens=300)
        await cancelled(engine, dropped, after_reads=steps % 6)
    assert await kept == greedy_by_library(library_model, PROMPT, tokens=200)
    assert engine.active == 0
    ids = await asyncio.gather(*(generated(engine, prompt=prompt, temperature=0.0) for prompt in PROMPTS))
    assert ids == [greedy_by_library(library_model, prompt) for prompt in PROMPTS]
