from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from generation.engine.quality_gate import measure_quality
from generation.engine.weights import Int8Quality
from tests.tiny_model import build_tiny_model


def test_int8_weights_differ_a_little_when_measured(tiny_folder: Path) -> None:
    threads = torch.get_num_threads()
    quality = measure_quality(tiny_folder)
    assert isinstance(quality, Int8Quality)
    assert quality.tokens == 384
    for difference in (quality.to_bf16, quality.to_f32):
        assert 0 < difference.kl < 0.1
        assert 0.7 < difference.agreement <= 1
    assert torch.get_num_threads() == threads


def test_figures_are_the_same_when_measured_again(tiny_folder: Path) -> None:
    assert measure_quality(tiny_folder) == measure_quality(tiny_folder)


def test_nothing_is_measured_when_the_model_is_another_kind(tmp_path: Path) -> None:
    build_tiny_model(tmp_path)
    config = GPT2Config(vocab_size=50, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    assert measure_quality(tmp_path) is None


def test_nothing_is_measured_when_the_model_is_too_big(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generation.engine.quality_gate.MOST_WEIGHTS", 1000)
    assert measure_quality(tiny_folder) is None
