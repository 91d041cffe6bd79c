from __future__ import annotations

from pathlib import Path

import pytest

from generation.engine.weights import Difference, Int8Quality, is_measured, read_quality, write_quality

QUALITY = Int8Quality(
    tokens=384, to_bf16=Difference(kl=0.0056, agreement=0.947), to_f32=Difference(kl=0.005, agreement=0.953)
)


def test_figures_are_read_back_when_written(tmp_path: Path) -> None:
    assert not is_measured(tmp_path)
    write_quality(tmp_path, QUALITY)
    assert is_measured(tmp_path)
    assert read_quality(tmp_path) == QUALITY
    assert [path.name for path in tmp_path.iterdir()] == ["int8_quality.json"]


def test_there_are_none_when_the_model_cannot_be_measured(tmp_path: Path) -> None:
    write_quality(tmp_path, None)
    assert is_measured(tmp_path)
    assert read_quality(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"tokens": 3}', '{"tokens": 3, "to_bf16": {"kl": 0}}'])
def test_there_are_none_when_the_file_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "int8_quality.json").write_text(text, encoding="utf-8")
    assert read_quality(tmp_path) is None


@pytest.mark.parametrize(
    ("kl", "agreement", "passes"),
    [(0.0, 1.0, True), (0.02, 0.9, True), (0.021, 0.95, False), (0.01, 0.899, False)],
)
def test_gate_opens_when_differences_are_small(kl: float, agreement: float, passes: bool) -> None:
    good = Difference(kl=0.001, agreement=0.99)
    tried = Difference(kl=kl, agreement=agreement)
    assert Int8Quality(tokens=384, to_bf16=tried, to_f32=good).passes is passes
    assert Int8Quality(tokens=384, to_bf16=good, to_f32=tried).passes is passes
    assert ("not good enough" in str(Int8Quality(tokens=384, to_bf16=tried, to_f32=good))) is not passes
