"""A thousand cancels and a fault at every step, over a real, tiny model: nothing is left behind, nobody notices."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from generation.engine.base import EngineState
from generation.engine.batch_runner import BatchRunner
from generation.engine.llama import Span
from generation.engine.sequence import Sequence
from generation.engine.torch_engine import TorchEngine
from generation.output import StopReason
from tests.generation.engine.generating import finished, llama_weights, sequence
from tests.generation.engine.test_batch_runner import load
from tests.tiny_model import CONTEXT_LENGTH

CANCELS = 1000
#: Beginnings that overlap, so that memory is taken over and shared in every way.
SYSTEM = [(11 * i) % 240 + 10 for i in range(90)]
#: Without a prompt in common with the cancelled ones, and each with its own seed.
NEIGHBOURS = [
    ([3 + i, *[(5 * j + i) % 200 + 20 for j in range(30)]], {"temperature": 1.0, "seed": i}) for i in range(2)
]


async def alone(folder: Path, prompt: list[int], **sampling: Any) -> list[int]:
    """What the model says to ``prompt`` on an engine of its own."""
    engine = TorchEngine(lambda: load(folder, slots=1), max_sequences=1)
    engine.start()
    try:
        return (await finished(engine, sequence(prompt, **{"max_tokens": 60, **sampling}))).token_ids
    finally:
        engine.close()


async def cancel_at_random(engine: TorchEngine, rng: random.Random) -> None:
    """Submit a sequence and cancel it queued, in a chunk of its prompt, while it decodes, or as it ends."""
    prompt = [*SYSTEM[: rng.randrange(len(SYSTEM))], *rng.choices(range(10, 250), k=rng.randrange(1, 40))]
    dropped = sequence(prompt, temperature=1.0, max_tokens=rng.choice([1, 3, 400]))
    engine.submit(dropped)
    for _ in range(rng.randrange(5)):
        if rng.random() < 0.5:
            await asyncio.sleep(0)
        elif dropped.stop_reason is None:
            reading = asyncio.ensure_future(dropped.reader.read())
            await asyncio.wait([reading], timeout=0.02)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    made = len(dropped.token_ids)
    engine.cancel(dropped)
    async with asyncio.timeout(100):
        while dropped.stop_reason is None:
            await dropped.reader.read()
    assert len(dropped.token_ids) <= made + 1
    assert dropped.stop_reason in {StopReason.CLIENT_STOP, StopReason.LENGTH, StopReason.EOS}


def census() -> dict[str, int]:
    """What this process has of that which could leak."""
    gc.collect()
    return {
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
        "file descriptors": len(os.listdir("/proc/self/fd")),
        "sequences": sum(type(kept) is Sequence for kept in gc.get_objects()),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
async def test_nothing_is_left_and_no_text_changes_when_a_thousand_are_cancelled(tiny_folder: Path) -> None:
    expected = [await alone(tiny_folder, prompt, **sampling) for prompt, sampling in NEIGHBOURS]
    runners: list[BatchRunner] = []

    def loaded() -> BatchRunner:
        runners.append(load(tiny_folder, slots=6))
        return runners[0]

    engine = TorchEngine(loaded, max_sequences=6, prefill_chunk=16)
    engine.start()
    await finished(engine, sequence(max_tokens=1))
    before = census()
    left = CANCELS
    said: list[tuple[int, list[int]]] = []

    async def be_neighbour(i: int) -> None:
        prompt, sampling = NEIGHBOURS[i]
        while left:
            said.append((i, (await finished(engine, sequence(prompt, max_tokens=60, **sampling))).token_ids))

    async def keep_cancelling(seed: int) -> None:
        nonlocal left
        rng = random.Random(seed)
        while left:
            left -= 1
            await cancel_at_random(engine, rng)

    await asyncio.gather(*(be_neighbour(i) for i in range(2)), *(keep_cancelling(seed) for seed in range(12)))
    assert len(said) >= 4
    assert all(token_ids == expected[i] for i, token_ids in said)
    assert (engine.active, len(engine._rounds), runners[0]._running) == (0, 0, {})
    assert all(slot.is_free and slot.reserved == 0 for slot in runners[0]._slab.slots)
    assert runners[0].kv_bytes <= runners[0].kv_bound_bytes
    after = census()
    assert {name: after[name] - before[name] for name in after if after[name] > before[name]} == {}
    engine.close()


class FaultyRunner(BatchRunner):
    """Raises ``error`` in one forward pass, after its keys and values are written: the worst moment."""

    number: int | None = None
    passes = 0
    error: type[BaseException] = RuntimeError

    def _forward(self, token_ids: list[int], spans: list[Span]) -> torch.Tensor:
        hidden = super()._forward(token_ids, spans)
        self.passes += 1
        if self.passes - 1 == self.number:
            raise self.error("injected")
        return hidden


def load_faulty(folder: Path, *, number: int | None, error: type[BaseException]) -> FaultyRunner:
    torch.set_num_threads(1)
    runner = FaultyRunner(llama_weights(folder), context_length=CONTEXT_LENGTH, slots=4)
    runner.passes, runner.number, runner.error = 0, number, error
    return runner


#: One that shares the first one's beginning, and one that joins when the others decode.
THREE = [
    (SYSTEM[:40], {"temperature": 1.0, "seed": 1, "max_tokens": 8}),
    ([*SYSTEM[:38], 7], {"temperature": 1.0, "seed": 2, "max_tokens": 8}),
    ([5, 6, 7], {"temperature": 0.0, "max_tokens": 4}),
]


@pytest.fixture(scope="module")
def expected(tiny_folder: Path) -> list[list[int]]:
    async def each() -> list[list[int]]:
        return [await alone(tiny_folder, prompt, **sampling) for prompt, sampling in THREE]

    return asyncio.run(each())


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
@pytest.mark.parametrize("number", range(11))
async def test_a_step_is_made_again_and_no_text_changes_when_it_fails_once(
    tiny_folder: Path, expected: list[list[int]], number: int, error: type[BaseException]
) -> None:
    runner = load_faulty(tiny_folder, number=number, error=error)
    engine = TorchEngine(lambda: runner, max_sequences=4, prefill_chunk=16)
    three = [sequence(prompt, **sampling) for prompt, sampling in THREE]
    ends = [asyncio.create_task(finished(engine, tested)) for tested in three]
    await asyncio.sleep(0)
    engine.start()
    await asyncio.gather(*ends)
    assert runner.passes > number
    failed = [tested for tested in three if tested.stop_reason is StopReason.ENGINE_ERROR]
    # Only a step of one sequence cannot be tried with fewer.
    assert len(failed) <= 1
    for tested, token_ids in zip(three, expected, strict=True):
        assert tested in failed or tested.token_ids == token_ids
    assert (engine.state, engine.active, runner._running) == (EngineState.READY, 0, {})
    again = await finished(engine, sequence(THREE[1][0], **THREE[1][1]))
    assert again.token_ids == expected[1]
    engine.close()


@pytest.mark.parametrize("number", range(11))
async def test_engine_goes_on_with_the_same_texts_when_its_thread_fails_at(
    tiny_folder: Path, expected: list[list[int]], number: int
) -> None:
    numbers = iter([number, None])
    engine = TorchEngine(
        lambda: load_faulty(tiny_folder, number=next(numbers), error=SystemExit), max_sequences=4, prefill_chunk=16
    )
    three = [sequence(prompt, **sampling) for prompt, sampling in THREE]
    ends = [asyncio.create_task(finished(engine, tested)) for tested in three]
    await asyncio.sleep(0)
    engine.start()
    await asyncio.gather(*ends)
    for (prompt, sampling), tested, token_ids in zip(THREE, three, expected, strict=True):
        if tested.stop_reason is StopReason.ENGINE_ERROR:
            tested = await finished(engine, sequence(prompt, **sampling))
        assert tested.token_ids == token_ids
    assert list(numbers) == []  # it was loaded twice
    assert (engine.state, engine.active) == (EngineState.READY, 0)
    engine.close()
