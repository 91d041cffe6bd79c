"""What callers and probes are told when the engine's thread dies: once, and for good."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient

from tests.tiny_model import build_tiny_model

pytestmark = pytest.mark.django_db(transaction=True)

BODY = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("tiny-model"), do_sample=False)


def use(settings: Any, folder: Path, *, deaths: int) -> None:
    options = {"model": str(folder), "threads": 1, "weights": "f32", "deaths": deaths}
    backend = {"BACKEND": "tests.generation.backends.dying_backend.DyingBackend", "OPTIONS": options}
    settings.GENERATION_BACKENDS = {"default": backend}


async def ask() -> tuple[int, str]:
    response = await AsyncClient().post("/v1/chat/completions", BODY, content_type="application/json")
    return response.status_code, response.json().get("error", {}).get("code", "")


async def readiness() -> tuple[int, str]:
    response = await AsyncClient().get("/readyz")
    return response.status_code, response.json()["status"]


async def test_requests_are_served_again_when_the_engine_died_once(settings: Any, tiny_folder: Path) -> None:
    use(settings, tiny_folder, deaths=1)
    assert await ask() == (500, "engine_error")
    assert await ask() == (200, "")
    assert await readiness() == (200, "ready")


async def test_requests_and_probes_get_503_when_the_engine_died_twice(settings: Any, tiny_folder: Path) -> None:
    use(settings, tiny_folder, deaths=2)
    assert await ask() == (500, "engine_error")
    # The second death fails for good whoever waits: this one, and those who come later.
    assert await ask() == (503, "backend_unavailable")
    assert await asyncio.gather(*(ask() for _ in range(3))) == [(503, "backend_unavailable")] * 3
    assert await readiness() == (503, "failed")
