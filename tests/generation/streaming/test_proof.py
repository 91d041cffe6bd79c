"""The stored proof: what the record says of a real tokenizer's text, whole or cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generation.backends import backends
from generation.backends.local_stream import LocalStream
from generation.models import Stream
from generation.output import Delta
from generation.recording import get_writer
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from generation.streaming import Generation, Origin, begin, collect
from tests.tiny_model import build_tiny_model

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture(autouse=True)
def _local(settings: Any, tiny_folder: Path) -> Iterator[None]:
    settings.GENERATION_BACKENDS = {
        "default": {
            "BACKEND": "generation.backends.local.LocalBackend",
            "OPTIONS": {"model": str(tiny_folder), "threads": 1},
        },
        "scripted": {
            "BACKEND": "generation.backends.scripted.ScriptedBackend",
            "OPTIONS": {"model": "scripted", "pieces": ["a"]},
        },
    }
    yield
    backends.close_all()


async def begun(model: str = "default", **sampling: Any) -> Generation:
    request = GenerationRequest(
        model=model,
        messages=(ChatMessage(role="user", content="hi"),),
        sampling=SamplingParams(**{"seed": 7, "temperature": 1.5, "ignore_eos": True, **sampling}),
    )
    return await begin(request, Origin(source="api"), received_at=time.monotonic())


async def row(generation: Generation) -> Stream:
    assert await asyncio.to_thread(get_writer().flush)
    return await Stream.objects.aget(pk=generation.stream_id)


async def test_text_equals_the_whole_decode_when_read_to_the_end() -> None:
    generation = await begun(max_tokens=60)
    await collect(generation)
    stream = await row(generation)
    assert (stream.proof, stream.text_sha256) == ("equal", stream.reference_sha256)
    assert len(stream.text_sha256) == 64
    assert len(stream.token_ids) == stream.completion_tokens == 60


async def test_text_is_a_prefix_when_the_reader_leaves() -> None:
    generation = await begun(max_tokens=400)
    for _ in range(5):
        await anext(generation)
    generation.close()
    stream = await row(generation)
    assert stream.stop_reason == "client_disconnect"
    assert stream.proof in {"prefix", "equal"}


async def test_a_wrong_text_is_told_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = LocalStream.__anext__

    async def loses_a_character(self: LocalStream) -> Delta:
        delta = await real(self)
        return Delta(text=delta.text[1:] or "?", first_token=delta.first_token, end_token=delta.end_token)

    monkeypatch.setattr(LocalStream, "__anext__", loses_a_character)
    generation = await begun(max_tokens=30)
    await collect(generation)
    stream = await row(generation)
    assert stream.proof == "different"
    assert f"The text of stream {stream.pk} differs" in caplog.text


async def test_there_is_none_for_a_backend_without_ids() -> None:
    generation = await begun("scripted")
    await collect(generation)
    assert (await row(generation)).proof is None
