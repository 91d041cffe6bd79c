from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from generation.engine.gguf_conversion import convert_gguf
from tests.tiny_model import SPECIAL_TOKENS, write_gguf


@pytest.fixture(scope="module")
def converted(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    gguf = write_gguf(tiny_folder, tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    convert_gguf(gguf, folder, report=lambda line: None, generation_defaults={"temperature": 0.5, "do_sample": True})
    return folder


def test_weights_are_the_models_in_bf16_when_converted(converted: Path, tiny_folder: Path) -> None:
    original, found = load_file(tiny_folder / "model.safetensors"), load_file(converted / "model.safetensors")
    assert found.keys() == original.keys()
    for name, tensor in original.items():
        assert torch.equal(found[name], tensor.to(torch.bfloat16)), name


def test_folder_has_all_that_a_chat_needs_when_converted(converted: Path, tiny_folder: Path) -> None:
    assert (converted / "chat_template.jinja").read_text() == (tiny_folder / "chat_template.jinja").read_text()
    generation = json.loads((converted / "generation_config.json").read_text())
    assert (generation["eos_token_id"], generation["temperature"]) == (2, 0.5)
    assert {path.suffix for path in converted.iterdir()} == {".json", ".jinja", ".safetensors"}
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in converted.iterdir())


def test_tokenizer_behaves_as_the_original_when_converted(converted: Path, tiny_folder: Path) -> None:
    original, found = (Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (tiny_folder, converted))
    for text in ("the cat and the hat", "<|im_start|>user\nघर 🏡<|im_end|>", "\t\n  x"):
        assert found.encode(text, add_special_tokens=False).ids == original.encode(text, add_special_tokens=False).ids
    assert [token.content for token in found.get_added_tokens_decoder().values() if token.special] == [*SPECIAL_TOKENS]


def test_digits_are_split_first_when_the_file_says_smollm(converted: Path) -> None:
    split = Tokenizer.from_file(str(converted / "tokenizer.json")).pre_tokenizer.pre_tokenize_str("in  2026")
    assert [piece for piece, _ in split] == ["in", "ĠĠ", "2", "0", "2", "6"]
