"""Which file OpenVINO reads for a model, and how it is loaded. Imports neither torch nor openvino.

Of a GGUF file it reads a copy, made by `generation.engine.model_fetch`; a folder must hold an exported model
(``openvino_model.xml``) beside the tokenizer's files.
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

from generation.engine.base import Runner
from generation.engine.model_files import BUNDLED_FOLDER, converted_folder, is_made, models_folder
from generation.engine.openvino_runner import OpenvinoRunner
from generation.engine.weights import Weights
from generation.exceptions import BackendUnavailableError

logger = logging.getLogger(__name__)

GGUF_NAME = "model.gguf"
EXPORTED = "openvino_model.xml"
#: Request fields that the library cannot carry out for one sequence among others.
UNSUPPORTED = frozenset({"logit_bias", "response_format", "top_logprobs"})


def find_openvino_model(model: str, var: Path) -> Path:
    """Return the GGUF file or the folder that OpenVINO reads; ``model`` is as in `find_model`.

    Raises BackendUnavailableError, with what to do, when there is none.
    """
    path = Path(model).expanduser()
    if model == "" or path.suffix == ".gguf":
        folder = gguf_folder(model, var)
        if not is_made(folder):
            raise BackendUnavailableError(
                "OpenVINO's copy of the model is not there yet. Run `manage.py fetch_model`, then restart the server."
            )
        return folder / GGUF_NAME
    if (path / EXPORTED).is_file():
        return path
    raise BackendUnavailableError(
        f"STREAMSITE_ENGINE is openvino, which cannot read {model!r}: name a .gguf file, or a folder with {EXPORTED}, "
        "or choose the torch engine."
    )


def gguf_folder(model: str, var: Path) -> Path:
    """Where OpenVINO's copy of a GGUF file lives: beside the folder that the file was converted to for torch."""
    folder = models_folder(var) / BUNDLED_FOLDER if model == "" else converted_folder(Path(model).expanduser(), var)
    return folder.with_name(f"{folder.name}-openvino")


def load_openvino_runner(
    model: Path,
    *,
    context_length: int,
    vocab_size: int,
    max_sequences: int,
    kv_tokens: int,
    prefill_chunk: int,
    weights: Weights,
    threads: int,
) -> Runner:
    """Load the file or folder; raises BackendUnavailableError when OpenVINO is not installed."""
    if importlib.util.find_spec("openvino_genai") is None:
        raise BackendUnavailableError(
            "STREAMSITE_ENGINE is openvino, which is not installed. Run `.venv/bin/python -m pip install -r "
            "requirements-openvino.txt`, then restart the server."
        )
    runner = OpenvinoRunner(
        model,
        context_length=context_length,
        vocab_size=vocab_size,
        max_sequences=max_sequences,
        kv_tokens=kv_tokens,
        prefill_chunk=prefill_chunk,
        weights=weights,
        threads=threads,
    )
    logger.info("The model is loaded: %s.", runner.summary)
    return runner
