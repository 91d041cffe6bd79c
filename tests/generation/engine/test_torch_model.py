from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from generation.engine.base import Runner
from generation.engine.batch_runner import BatchRunner
from generation.engine.torch_model import load_runner
from generation.engine.torch_runner import TorchRunner
from generation.engine.weights import Difference, Int8Quality, Weights, write_quality
from generation.exceptions import BackendUnavailableError
from tests.tiny_model import CONTEXT_LENGTH

HAS_BF16 = torch.cpu._is_avx512_bf16_supported()
GOOD = Difference(kl=0.01, agreement=0.95)
FEW = "bfloat16 (int8 for at most 4 rows)"


def load(folder: Path, *, weights: Weights = Weights.F32, context_length: int = CONTEXT_LENGTH) -> Runner:
    # One thread: on a busy machine two wait for each other longer than they work.
    return load_runner(
        folder,
        context_length=context_length,
        max_sequences=4,
        kv_tokens=4 * context_length,
        weights=weights,
        device="cpu",
        threads=1,
    )


def test_llama_runs_in_batches_and_states_its_memory_when_loaded(
    tiny_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        runner = load(tiny_folder)
    assert isinstance(runner, BatchRunner)
    assert runner.max_batch == 4
    # Keys and values x 2 layers x 4 sequences x 2 heads x 512 positions x 8 numbers x 4 bytes = 0.5 MB.
    assert runner.summary == (
        "4 sequences at once, 512 positions each and 2,048 together, float32, KV memory at most 0.5 MB"
    )
    assert f"The model is loaded: {runner.summary}." in caplog.text


@pytest.fixture
def gpt2_folder(tmp_path: Path) -> Path:
    config = GPT2Config(vocab_size=50, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    return tmp_path


def test_other_models_run_one_sequence_at_a_time_when_loaded(gpt2_folder: Path) -> None:
    runner = load(gpt2_folder, context_length=64)
    assert isinstance(runner, TorchRunner)
    assert runner.summary == "one sequence at a time, 64 positions each and 256 together, float32"


def test_int8_is_refused_when_the_model_is_another_kind(gpt2_folder: Path) -> None:
    with pytest.raises(BackendUnavailableError, match=r"outside the llama family cannot have\. Set STREAMSITE_WEIG"):
        load(gpt2_folder, weights=Weights.INT8, context_length=64)


def test_models_are_whole_when_many_load_at_once(gpt2_folder: Path) -> None:
    def load_it(_: int) -> Runner:
        return load(gpt2_folder, context_length=64)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            for runner in threads.map(load_it, range(4)):
                assert isinstance(runner, TorchRunner)
                assert runner._model.lm_head.weight is runner._model.transformer.wte.weight


@pytest.fixture
def own_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that figures may be put into."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "own"))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [(Weights.F32, "float32"), (Weights.BF16, "bfloat16"), (Weights.INT8, FEW)],
    ids=str,
)
def test_weights_are_as_asked_for_when_named(own_folder: Path, weights: Weights, expected: str) -> None:
    assert f", {expected}, KV" in load(own_folder, weights=weights).summary


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        pytest.param(Int8Quality(tokens=384, to_bf16=GOOD, to_f32=GOOD), FEW, id="passed"),
        pytest.param(
            Int8Quality(tokens=384, to_bf16=GOOD, to_f32=Difference(kl=0.03, agreement=0.95)), "bfloat16", id="far off"
        ),
        pytest.param(
            Int8Quality(tokens=384, to_bf16=Difference(kl=0.01, agreement=0.89), to_f32=GOOD),
            "bfloat16",
            id="other tokens",
        ),
        pytest.param(None, "bfloat16", id="not measured"),
    ],
)
def test_int8_is_chosen_only_when_the_gate_is(own_folder: Path, quality: Int8Quality | None, expected: str) -> None:
    if quality is not None:
        write_quality(own_folder, quality)
    summary = load(own_folder, weights=Weights.AUTO).summary
    # Without AVX-512 its matrix products are emulated.
    assert f", {expected if HAS_BF16 else 'float32'}, KV" in summary


def test_int8_is_refused_when_the_device_is_no_cpu(tiny_folder: Path) -> None:
    with pytest.raises(BackendUnavailableError, match="for CPUs, not for cuda"):
        load_runner(
            tiny_folder,
            context_length=64,
            max_sequences=1,
            kv_tokens=64,
            weights=Weights.INT8,
            device="cuda",
            threads=1,
        )
