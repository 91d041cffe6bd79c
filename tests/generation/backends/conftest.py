"""The tiny model, and short ways to ask a backend and to read its stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Greedy unless a request says otherwise.
    return build_tiny_model(tmp_path_factory.mktemp("tiny-model"), do_sample=False)
