"""What tests do with OpenVINO's own objects, in a process that ends with it.

Its CPU plugin gives the thread that loads a model another stack for signals, and takes that away wherever the model is
freed: freed by another thread, the next signal kills the process.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from generation.engine.openvino_process import Batch
from generation.engine.openvino_runner import pipeline_options
from generation.engine.weights import Weights

P = ParamSpec("P")
T = TypeVar("T")


def in_own_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def save_as_folder(source: Path) -> None:
    """Let the library write ``source``, a GGUF file, beside it in its own form."""
    options = _options(max_sequences=1, kv_tokens=256)
    options["properties"]["enable_save_ov_model"] = True
    Batch(str(source), **options)


def goes_on_after_release(model: Path, prompt: list[int], released: list[int]) -> list[str]:
    """Release one of two sequences between two steps; return what is made for it, or left over, afterwards."""
    batch = Batch(str(model), **_options(max_sequences=2, kv_tokens=512))
    config = {"max_new_tokens": 40, "ignore_eos": True}
    batch.join(1, prompt, config)
    batch.join(2, released, config)
    wrong = [] if all(batch.step([1, 2])) else ["no token while both ran"]
    dropped = batch._places[2].handle
    batch.release(2)
    batch.release(2)  # nothing to free is no error
    if not all(batch.step([1])):
        wrong.append("no token for the other")
    if dropped.can_read():
        wrong.append("a token for the released")
    batch.release(1)
    if batch._pipeline.has_non_finished_requests():
        wrong.append("an unfinished request")
    return wrong


def _options(*, max_sequences: int, kv_tokens: int) -> dict[str, Any]:
    return pipeline_options(
        max_sequences=max_sequences, kv_tokens=kv_tokens, prefill_chunk=256, weights=Weights.F32, threads=1
    )
