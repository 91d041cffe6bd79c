"""Loading a transformers model from its folder, and the runner that suits it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import torch

from generation.engine.allocator import give_memory_back
from generation.engine.base import Runner
from generation.engine.batch_runner import BatchRunner
from generation.engine.llama_weights import LlamaWeights, read_llama_config
from generation.engine.weights import Weights, is_measured, read_quality
from generation.exceptions import BackendUnavailableError
from generation.garbage import settle

logger = logging.getLogger(__name__)

#: For how many rows at once int8 weights are used. Their kernel takes four, and reads all weights again for the next
#: four. Milliseconds a step of the bundled model, int8 and bf16, on two cores with AMX: 1 row 9.0 and 14.2, 4 rows 12.8
#: and 14.5, 5 rows 21.2 and 14.8 (linear layers only); without AMX: 15.0 and 22.7, 21.1 and 24.5, 35.6 and 26.3.
INT8_ROWS = 4
#: The library swaps a method of all models while it loads one (``no_tie_weights``). Two loads at once can leave the
#: wrong one in place, and then every later model with tied weights comes out half empty.
_loading = threading.Lock()


def load_runner(
    folder: Path,
    *,
    context_length: int,
    max_sequences: int,
    kv_tokens: int,
    weights: Weights,
    device: str,
    threads: int,
) -> Runner:
    """Load a model folder for at most ``max_sequences`` at once; ``threads`` holds for the calling thread.

    ``kv_tokens`` is what they may take together. ``device`` ``auto`` is CUDA where torch finds it, else the CPU.
    Models of the llama family run in batches, others one sequence at a time.
    Raises BackendUnavailableError for weights that the model or the device cannot have.
    """
    torch.set_num_threads(threads)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = _chosen(weights, folder, device)
    dtype = torch.float32 if chosen is Weights.F32 else torch.bfloat16
    llama = read_llama_config(folder)
    runner: Runner
    if llama is not None:
        runner = BatchRunner(
            LlamaWeights(folder, llama, dtype=dtype, device=torch.device(device)),
            context_length=context_length,
            slots=max_sequences,
            kv_tokens=kv_tokens,
            int8_rows=INT8_ROWS if chosen is Weights.INT8 else 0,
        )
    elif chosen is Weights.INT8:
        raise BackendUnavailableError(
            "The weights are to be int8, which models outside the llama family cannot have. Set STREAMSITE_WEIGHTS to "
            "auto, bf16 or f32."
        )
    else:
        from generation.engine.torch_runner import TorchRunner  # takes the library's models along

        model = load_model(folder, dtype=dtype, device=device)
        runner = TorchRunner(model, context_length=context_length, kv_tokens=kv_tokens)
    settle()
    give_memory_back()
    logger.info("The model is loaded: %s.", runner.summary)
    return runner


def load_model(folder: Path, *, dtype: torch.dtype, device: str) -> Any:
    """The transformers model in a folder. No pickles, no code from the folder."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    with _loading:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
        )
    return model.to(device).eval()


def _chosen(weights: Weights, folder: Path, device: str) -> Weights:
    """What ``auto`` is here. Without AVX-512's bf16 its matrix products are emulated.

    CPU seconds for 256 prompt tokens of the bundled model on AVX2: bf16 6.2, f32 1.1; decode the same in both.
    """
    if weights is Weights.INT8 and device != "cpu":
        raise BackendUnavailableError(
            f"The weights are to be int8, which are for CPUs, not for {device}. Set STREAMSITE_WEIGHTS to auto or bf16."
        )
    if weights is not Weights.AUTO:
        return weights
    if device != "cpu":
        return Weights.BF16
    if not torch.cpu._is_avx512_bf16_supported():
        return Weights.F32
    quality = read_quality(folder)
    if quality is not None and quality.passes:
        return Weights.INT8
    if not is_measured(folder):
        logger.info("What int8 weights change in this model is not measured, so they are bf16. Run fetch_model.")
    return Weights.BF16
