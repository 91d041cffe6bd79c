"""The engine over OpenVINO's own batching, with a real, tiny model as a GGUF file."""

from __future__ import annotations

import asyncio
import copy
import json
import multiprocessing
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from generation.engine import openvino_process
from generation.engine.base import EngineState
from generation.engine.openvino_model import find_openvino_model
from generation.engine.openvino_process import Batch, RefusedError
from generation.engine.openvino_runner import OpenvinoRunner
from generation.engine.torch_engine import TorchEngine
from generation.engine.weights import Weights
from generation.exceptions import EngineError
from generation.output import StopReason
from tests.generation.engine.generating import (
    PROMPT,
    cancelled,
    finished,
    generated,
    greedy_by_library,
    sequence,
    stepped,
)
from tests.generation.engine.openvino_batches import goes_on_after_release, in_own_process, save_as_folder
from tests.live_server import ROOT
from tests.tiny_model import CONTEXT_LENGTH, END_ID, write_gguf

pytestmark = pytest.mark.model

Load = Callable[..., OpenvinoRunner]
PROMPTS = [PROMPT[:length] for length in (1, 3, 4, 5, 8, 10)] + [[1, 5] * 70, [9, 8, 7] * 60]


@pytest.fixture(scope="module")
def tiny_gguf(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tiny_folder, tmp_path_factory.mktemp("tiny-gguf") / "tiny.gguf", half=True)


@pytest.fixture(scope="module")
def half_model(library_model: Any) -> Any:
    """The library's model with the weights that are in the file."""
    return copy.deepcopy(library_model).half().float()


@pytest.fixture(scope="module")
def load(tiny_gguf: Path, library_model: Any) -> Load:
    def load(**options: Any) -> OpenvinoRunner:
        return OpenvinoRunner(
            **{
                "model": tiny_gguf,
                "context_length": CONTEXT_LENGTH,
                "vocab_size": 265,
                "max_sequences": 8,
                "kv_tokens": 8 * CONTEXT_LENGTH,
                "prefill_chunk": 64,
                "weights": Weights.F32,
                "threads": 1,
                **options,
            },
        )

    return load


@pytest.fixture(scope="module")
def engine(load: Load) -> Iterator[TorchEngine]:
    engine = TorchEngine(load, prefill_chunk=sys.maxsize)
    engine.start()
    yield engine
    engine.close()


async def test_greedy_ids_equal_the_librarys_when_many_run_together(engine: TorchEngine, half_model: Any) -> None:
    expected = [greedy_by_library(half_model, prompt, tokens=16) for prompt in PROMPTS]
    # And once more, with what is kept of the prompts.
    for together in (PROMPTS * 2, PROMPTS):
        ids = await asyncio.gather(
            *(generated(engine, prompt=prompt, temperature=0.0, max_tokens=16) for prompt in together)
        )
        assert ids == expected * (len(together) // len(PROMPTS))


@pytest.mark.parametrize(
    ("sampling", "length", "stop_reason"),
    [
        pytest.param({"max_tokens": 7}, 7, StopReason.LENGTH, id="length"),
        pytest.param({"max_tokens": 1}, 1, StopReason.LENGTH, id="one token"),
        pytest.param({"max_tokens": None}, CONTEXT_LENGTH - len(PROMPT), StopReason.CONTEXT, id="context"),
    ],
)
async def test_sequence_ends_by_its_length_when(
    engine: TorchEngine, sampling: dict[str, Any], length: int, stop_reason: StopReason
) -> None:
    ended = await finished(engine, sequence(temperature=0.0, ignore_eos=True, **sampling))
    assert (len(ended.token_ids), ended.stop_reason) == (length, stop_reason)


@pytest.fixture(scope="module")
def greedy(half_model: Any) -> list[int]:
    """What follows `PROMPT`; each id is there once, up to the tenth."""
    ids = greedy_by_library(half_model, PROMPT)
    assert len(set(ids[:10])) >= 8
    return ids


async def test_end_and_stop_ids_end_a_sequence(engine: TorchEngine, greedy: list[int]) -> None:
    end, stop = greedy[5], greedy[3]
    assert greedy.index(end) == 5
    assert greedy.index(stop) == 3

    async def ended(*, stop_ids: frozenset[int] = frozenset(), **sampling: Any) -> tuple[list[int], StopReason | None]:
        tested = sequence(temperature=0.0, **{"max_tokens": 10, **sampling})
        tested.end_ids, tested.stop_ids = frozenset({END_ID, end}), stop_ids
        await finished(engine, tested)
        return tested.token_ids, tested.stop_reason

    assert await ended() == (greedy[:6], StopReason.EOS)
    assert await ended(max_tokens=6) == (greedy[:6], StopReason.EOS)
    assert await ended(ignore_eos=True) == (greedy[:10], StopReason.LENGTH)
    assert await ended(stop_ids=frozenset({stop})) == (greedy[:4], StopReason.STOP_TOKEN)
    assert await ended(stop_ids=frozenset({stop}), ignore_eos=True) == (greedy[:4], StopReason.STOP_TOKEN)
    ids, _ = await ended(stop_ids=frozenset({stop}), min_tokens=8)
    assert ids[:3] == greedy[:3]
    assert not {end, stop, END_ID} & set(ids[:8])


async def test_each_sequence_is_sampled_in_its_own_way_when_together(engine: TorchEngine, greedy: list[int]) -> None:
    ways: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 1.0, "top_p": 0.0},
        {"temperature": 1.0, "min_p": 0.99},
        {"temperature": 1.0, "top_p": 0.001},
        {"temperature": 1.5, "seed": 3},
        {"temperature": 1.5, "seed": 4},
    ]
    ids = await asyncio.gather(*(generated(engine, ignore_eos=True, max_tokens=20, **way) for way in ways))
    assert [ids[n][:20] == greedy[:20] for n in range(len(ways))] == [True] * 5 + [False] * 2
    assert ids[5] != ids[6]


async def test_text_of_a_seed_is_the_same_when_it_runs_alone(engine: TorchEngine) -> None:
    options: dict[str, Any] = {"temperature": 1.0, "ignore_eos": True, "max_tokens": 20}
    first = await generated(engine, seed=5, **options)
    assert await generated(engine, seed=5, **options) == first
    assert await generated(engine, seed=-6, **options) != first
    assert await generated(engine, **options) != await generated(engine, **options)


@pytest.mark.parametrize(
    "penalty",
    [{"presence_penalty": 2.0}, {"frequency_penalty": 2.0}, {"repetition_penalty": 5.0}],
    ids=lambda way: next(iter(way)),
)
async def test_ids_repeat_less_when_penalised(engine: TorchEngine, penalty: dict[str, float]) -> None:
    options: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True, "max_tokens": 40}
    plain, penalised = await generated(engine, **options), await generated(engine, **options, **penalty)
    assert len(set(penalised)) > len(set(plain))


async def test_log_probabilities_are_the_models_own_when_wanted(load: Load, half_model: Any) -> None:
    import torch

    runner = load()
    for way in ({"temperature": 0.0}, {"temperature": 0.2, "seed": 1, "presence_penalty": 2.0}):
        tested = sequence(max_tokens=12, ignore_eos=True, logprobs=True, **way)
        drawn = [stepped(runner, [tested])[0] for _ in range(12)]
        with torch.inference_mode():
            logits = half_model(torch.tensor([[*PROMPT, *tested.token_ids]])).logits[0].log_softmax(-1)
        expected = [logits[len(PROMPT) - 1 + place, token_id].item() for place, token_id in enumerate(tested.token_ids)]
        assert [one.logprobs.logprob for one in drawn if one and one.logprobs] == pytest.approx(expected, abs=1e-2)
        runner.release(tested)
    runner.close()


def test_no_token_is_made_after_a_sequence_is_released(tiny_gguf: Path) -> None:
    assert in_own_process(goes_on_after_release, tiny_gguf, PROMPT, PROMPTS[6]) == []


async def test_memory_is_free_when_sequences_were_cancelled_at_every_step(engine: TorchEngine, half_model: Any) -> None:
    kept = asyncio.create_task(generated(engine, temperature=0.0, max_tokens=30))
    for steps in range(24):
        dropped = sequence(PROMPTS[steps % len(PROMPTS)], max_tokens=300, ignore_eos=True)
        await cancelled(engine, dropped, after_reads=steps % 6)
    assert await kept == greedy_by_library(half_model, PROMPT, tokens=30)
    assert engine.active == 0
    # All of the memory can be used again, several times over.
    long = [[1, *range(3, 200), *prompt[:8]] for prompt in PROMPTS]
    lengths = await asyncio.gather(
        *(generated(engine, prompt=prompt, temperature=0.0, ignore_eos=True, max_tokens=250) for prompt in long * 2)
    )
    assert [len(ids) for ids in lengths] == [250] * 16


@pytest.mark.parametrize("bad", [10_000_000, -1, 265])
async def test_only_the_guilty_ends_when_ids_are_out_of_range(engine: TorchEngine, half_model: Any, bad: int) -> None:
    neighbour = asyncio.create_task(generated(engine, temperature=0.0))
    ended = await finished(engine, sequence([1, bad]))
    assert ended.stop_reason is StopReason.ENGINE_ERROR
    assert isinstance(ended.error, EngineError)
    assert await neighbour == greedy_by_library(half_model, PROMPT)


@pytest.mark.parametrize("tokens", [0, 1, 5])
async def test_model_is_loaded_anew_when_its_process_dies(load: Load, half_model: Any, tokens: int) -> None:
    runners: list[OpenvinoRunner] = []

    def loading() -> OpenvinoRunner:
        runners.append(load())
        return runners[-1]

    engine = TorchEngine(loading, prefill_chunk=sys.maxsize)
    engine.start()
    assert await generated(engine, temperature=0.0) == greedy_by_library(half_model, PROMPT)
    tested = sequence(temperature=0.0, max_tokens=None, ignore_eos=True)
    if not tokens:
        runners[0]._process.kill()
    engine.submit(tested)
    while tested.stop_reason is None:
        await tested.reader.read()
        if len(tested.token_ids) >= tokens:
            runners[0]._process.kill()
    assert (tested.stop_reason, type(tested.error)) == (StopReason.ENGINE_ERROR, EngineError)
    assert await generated(engine, temperature=0.0) == greedy_by_library(half_model, PROMPT)
    assert (engine.state, len(runners)) == (EngineState.READY, 2)
    engine.close()
    assert runners[1]._process.returncode is not None


def test_process_says_why_nothing_more_can_be_done_when_a_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingBatch(Batch):
        kv_bytes, kv_bound_bytes = 1, 2

        def __init__(self, model: str) -> None: ...

        def step(self, numbers: list[int]) -> list[Any]:
            raise RuntimeError("no memory") if numbers else RefusedError("not this one")

    monkeypatch.setattr(openvino_process, "Batch", FailingBatch)
    here, there = multiprocessing.Pipe()
    process = threading.Thread(target=openvino_process.serve, args=(there,))
    process.start()
    here.send(("model", {}))
    assert here.recv()[0] == "done"
    here.send(("step", []))
    assert here.recv() == ("refused", "not this one", 1)
    here.send(("step", [1]))
    assert here.recv() == ("lost", "RuntimeError: no memory", 0)
    process.join(10)
    assert not process.is_alive()
    here.close()
    there.close()


@pytest.fixture
def exported(tiny_gguf: Path, tmp_path: Path) -> Path:
    """The tiny model in a folder, as the library writes it."""
    source = Path(shutil.copy(tiny_gguf, tmp_path))
    in_own_process(save_as_folder, source)
    source.unlink()
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": END_ID}))
    return tmp_path


async def test_folder_is_read_when_a_model_was_exported_to_it(load: Load, exported: Path, half_model: Any) -> None:
    runner = load(model=find_openvino_model(str(exported), exported))
    tested = sequence(temperature=0.0)
    for _ in range(20):
        stepped(runner, [tested])
    assert tested.token_ids == greedy_by_library(half_model, PROMPT, tokens=20)
    runner.close()


def test_message_says_what_the_library_said_when_it_cannot_load_the_model(load: Load, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    with pytest.raises(EngineError, match=r"OpenVINO failed: \w+: ."):
        load(model=tmp_path / "broken.gguf")


def test_no_process_is_left_behind_when_the_server_is_killed(tiny_gguf: Path) -> None:
    code = f"""
import pathlib, sys
from generation.engine.openvino_model import find_openvino_model
from generation.engine.openvino_process import Batch, RefusedError
from generation.engine.openvino_runner import OpenvinoRunner, pipeline_options
from generation.engine.weights import Weights
runner = OpenvinoRunner(pathlib.Path({str(tiny_gguf)!r}), context_length=64, vocab_size=265, max_sequences=1,
    kv_tokens=64, prefill_chunk=64, weights=Weights.F32, threads=1)
print(runner._process.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as server:
        assert server.stdout is not None
        child = Path("/proc") / server.stdout.readline().decode().strip()
        assert b"openvino_process" in (child / "cmdline").read_bytes()
        server.kill()
    for _ in range(200):
        # Gone, or waiting only for whoever adopted it to take note.
        if not child.exists() or not (child / "cmdline").read_bytes():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the process goes on")


async def test_nothing_is_lost_when_a_sequence_is_not_asked_for_a_while(load: Load, half_model: Any) -> None:
    runner = load()
    waiting, going_on = sequence(temperature=0.0), sequence(PROMPTS[1], temperature=0.0)
    for _ in range(3):
        stepped(runner, [waiting, going_on])
    for _ in range(5):
        stepped(runner, [going_on])
    for _ in range(10):
        stepped(runner, [waiting, going_on])
    assert waiting.token_ids == greedy_by_library(half_model, PROMPT, tokens=13)
    assert going_on.token_ids == greedy_by_library(half_model, PROMPTS[1], tokens=18)
    runner.close()


def test_memory_is_bounded_by_what_was_asked_for(load: Load) -> None:
    small, large = load(kv_tokens=512, max_sequences=1), load(kv_tokens=4096, max_sequences=1)
    assert 0 < small.kv_bound_bytes < large.kv_bound_bytes / 4
    assert "4,096 together" in large.summary
    small.close()
    large.close()
