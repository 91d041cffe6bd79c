from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generation.engine.model_config import read_model_config
from generation.exceptions import BackendUnavailableError
from generation.request import SamplingParams

CONFIG = {"max_position_embeddings": 2048, "vocab_size": 100, "eos_token_id": 2}


def folder_with(folder: Path, config: object, generation: object = None) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


@pytest.mark.parametrize(
    ("config", "generation", "end_ids"),
    [
        pytest.param(CONFIG, None, {2}, id="config only"),
        pytest.param(CONFIG, {"eos_token_id": [2, 7]}, {2, 7}, id="generation config wins"),
        pytest.param({**CONFIG, "eos_token_id": None}, None, set(), id="none"),
        pytest.param({"text_config": CONFIG}, None, {2}, id="nested"),
        pytest.param({"n_positions": 2048, "vocab_size": 100, "eos_token_id": 0}, None, {0}, id="older names, id 0"),
    ],
)
def test_limits_and_end_tokens_are_read_when(
    tmp_path: Path, config: dict[str, Any], generation: dict[str, Any] | None, end_ids: set[int]
) -> None:
    found = read_model_config(folder_with(tmp_path, config, generation))
    assert (found.context_length, found.vocab_size, set(found.end_ids)) == (2048, 100, end_ids)


@pytest.mark.parametrize(("asked", "expected"), [(None, 2048), (512, 512), (9999, 2048)])
def test_context_is_only_ever_lowered_when_an_option_asks(tmp_path: Path, asked: int | None, expected: int) -> None:
    assert read_model_config(folder_with(tmp_path, CONFIG), context_length=asked).context_length == expected


@pytest.mark.parametrize(
    ("generation", "asked", "completed"),
    [
        pytest.param(None, {}, {"temperature": 1.0}, id="nothing said"),
        pytest.param({"do_sample": False}, {}, {"temperature": 0.0}, id="greedy model"),
        pytest.param({"do_sample": False}, {"temperature": 0.7}, {"temperature": 0.7}, id="request over greedy model"),
        pytest.param(
            {"temperature": 0.2, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1},
            {"top_p": 1.0, "max_tokens": 5, "seed": 3},
            {
                "temperature": 0.2,
                "top_p": 1.0,
                "top_k": 40,
                "min_p": 0.1,
                "repetition_penalty": 1.1,
                "max_tokens": 5,
                "seed": 3,
            },
            id="request over model",
        ),
        pytest.param({"temperature": 0.2}, {"temperature": 0.0}, {"temperature": 0.0}, id="zero is said, not open"),
    ],
)
def test_open_fields_are_filled_when_the_model_has_defaults(
    tmp_path: Path, generation: dict[str, Any] | None, asked: dict[str, Any], completed: dict[str, Any]
) -> None:
    config = read_model_config(folder_with(tmp_path, CONFIG, generation))
    assert config.completed(SamplingParams(**asked)) == SamplingParams(**completed)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"vocab_size": 5}', '"text"'], ids=["empty", "cut", "list", "bare", "half", "string"]
)
def test_folder_is_refused_when_its_config_describes_no_model(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BackendUnavailableError, match=r"config\.json does not describe a language model"):
        read_model_config(tmp_path)
