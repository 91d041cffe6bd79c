from __future__ import annotations

import sys
from pathlib import Path

import pytest

from generation.engine.openvino_model import find_openvino_model, load_openvino_runner
from generation.engine.weights import Weights
from generation.exceptions import BackendUnavailableError


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param("", "Run `manage.py fetch_model`", id="bundled, not fetched"),
        pytest.param("{tmp}/some.gguf", "Run `manage.py fetch_model`", id="file, not copied"),
        pytest.param("{tmp}/none.gguf", "Check STREAMSITE_MODEL", id="no such file"),
        pytest.param("{tmp}", "openvino_model.xml", id="folder for torch"),
        pytest.param("owner/name", "choose the torch engine", id="hub id"),
    ],
)
def test_message_says_what_to_do_when_there_is_nothing_to_read(tmp_path: Path, model: str, message: str) -> None:
    (tmp_path / "some.gguf").touch()
    with pytest.raises(BackendUnavailableError) as caught:
        find_openvino_model(model.format(tmp=tmp_path), tmp_path)
    assert message in caught.value.message


def test_folder_is_read_when_a_model_was_exported_to_it(tmp_path: Path) -> None:
    (tmp_path / "openvino_model.xml").touch()
    assert find_openvino_model(str(tmp_path), tmp_path) == tmp_path


def test_message_names_the_command_when_openvino_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install -r requirements-openvino\.txt"):
        load_openvino_runner(
            tmp_path / "model.gguf",
            context_length=512,
            vocab_size=100,
            max_sequences=1,
            kv_tokens=512,
            prefill_chunk=64,
            weights=Weights.AUTO,
            threads=1,
        )
