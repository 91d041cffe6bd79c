"""The engine over the library's forward pass, a sequence at a time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from generation.engine.torch_engine import TorchEngine
from generation.engine.torch_model import load_model
from generation.engine.torch_runner import TorchRunner
from tests.generation.engine.generating import PROMPT, generated, greedy_by_library, sequence, stepped
from tests.tiny_model import CONTEXT_LENGTH


def load(folder: Path) -> TorchRunner:
    model = load_model(folder, dtype=torch.float32, device="cpu")
    return TorchRunner(model, context_length=CONTEXT_LENGTH, kv_tokens=8 * CONTEXT_LENGTH)


@pytest.fixture
def engine(tiny_folder: Path, library_model: Any) -> Iterator[TorchEngine]:
    # After the library's own model: two loads at once would break each other.
    engine = TorchEngine(lambda: load(tiny_folder), prefill_chunk=4)
    engine.start()
    yield engine
    engine.close()


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 10], ids=lambda n: f"prompt of {n}, chunks of 4")
async def test_greedy_ids_equal_the_librarys_when(engine: TorchEngine, library_model: Any, length: int) -> None:
    prompt = PROMPT[:length]
    assert await generated(engine, prompt=prompt, temperature=0.0) == greedy_by_library(library_model, prompt)


async def test_seed_gives_the_same_ids_when_alone_and_beside_others(engine: TorchEngine) -> None:
    alone = await generated(engine, temperature=1.0, seed=11)
    beside, *others = await asyncio.gather(
        generated(engine, temperature=1.0, seed=11),
        generated(engine, temperature=1.5, seed=12, prompt=PROMPT[:3]),
    )
    assert beside == alone
    assert all(other != alone for other in others)


def live_caches() -> int:
    return sum(type(thing) is DynamicCache for thing in gc.get_objects())


async def test_memory_is_freed_at_once_when_a_sequence_is_released(tiny_folder: Path) -> None:
    runner = load(tiny_folder)
    before = live_caches()
    sequences = [sequence(), sequence()]
    for tested in sequences:
        stepped(runner, [tested])
    assert live_caches() == before + 2
    runner.release(sequences[0])
    assert live_caches() == before + 1
    runner.release(sequences[0])  # nothing to free is no error
    runner.close()
    assert live_caches() == before
