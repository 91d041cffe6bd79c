"""The bundled model computed by OpenVINO behind the same backend: its answers, what it refuses, how near it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from django.test import override_settings
from transformers import AutoModelForCausalLM

from generation.backends.base import BackendState
from generation.backends.local import LocalBackend
from generation.engine.model_fetch import prepare_model, prepare_openvino_model
from generation.exceptions import InvalidRequestError
from generation.output import StopReason
from streamsite.env import BASE_DIR
from tests.generation.backends.asking import ask, read, text, until
from tests.generation.engine.generating import generated

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

#: Fixed, and of the project's own: what the likeliest next token is after each part of it.
PASSAGE = (
    "The river rises in the hills above the town and runs for forty miles before it reaches the sea. In spring the "
    "snow melts and the water is high; in late summer children walk across it on the stones. A mill has stood at the "
    "bend since the year 1642. It ground wheat for the villages on both banks until the railway came, and then it "
    "stood empty for a long time. Today it is a small museum with a café, where you drink tea and look at the wheel."
)


@pytest.fixture(scope="module")
def bundled_folder() -> Path:
    prepare_openvino_model("", BASE_DIR / "var")
    return prepare_model("", BASE_DIR / "var")


@pytest.fixture(scope="module")
def local(bundled_folder: Path) -> Iterator[LocalBackend]:
    with override_settings(STREAMSITE_VAR=BASE_DIR / "var", STREAMSITE_MODEL=""):
        backend = LocalBackend("test", engine="openvino", threads=1, max_sequences=16)
        yield backend
        backend.close()


async def test_answer_is_right_and_ends_by_itself_when_asked_to_repeat_a_sentence(local: LocalBackend) -> None:
    # Each token is at least three times as likely as any other: no processor's rounding changes the answer.
    question = "Repeat after me: The cat sat on the mat."
    stream = await local.stream(ask(question, max_tokens=60, temperature=0.0, logprobs=True))
    deltas = await read(stream)
    assert text(deltas) == "The cat sat on the mat."
    assert stream.outcome is not None
    assert stream.outcome.stop_reason is StopReason.EOS
    assert stream.outcome.usage is not None
    assert stream.outcome.usage.cached_tokens is None  # the library does not say
    assert len(deltas) >= 5
    entries = [entry for delta in deltas for entry in delta.logprobs]
    assert b"".join(entry.data for entry in entries).decode() == text(deltas)
    assert all(entry.logprob <= 0 for entry in entries)
    assert local.health.state is BackendState.READY
    assert "OpenVINO" in local.health.message


@pytest.mark.parametrize("field", ["logit_bias", "response_format", "top_logprobs"])
async def test_field_is_refused_when_the_library_cannot_carry_it_out(local: LocalBackend, field: str) -> None:
    with pytest.raises(InvalidRequestError, match="is not supported") as caught:
        await local.stream(ask(asked_for=frozenset({field, "seed"})))
    assert caught.value.param == field


async def test_likeliest_tokens_are_refused_when_a_bare_prompt_asks_for_them(local: LocalBackend) -> None:
    with pytest.raises(InvalidRequestError, match="Ask for 0") as caught:
        await local.stream(ask(asked_for=frozenset({"logprobs"}), logprobs=True, top_logprobs=3))
    assert caught.value.param == "logprobs"


async def test_stream_stops_within_a_step_when_cancelled_beside_others(local: LocalBackend) -> None:
    stopped: list[int] = []
    stream = await local.stream(ask("Tell a long story.", max_tokens=400, ignore_eos=True))
    other = await local.stream(ask("Count to a hundred.", max_tokens=40, ignore_eos=True))
    stream.on_stopped = lambda at, made: stopped.append(made)
    reading = asyncio.create_task(read(other))
    await anext(stream)
    stream.cancel()
    await until(lambda: stopped != [])
    assert stopped[0] < 400
    assert len(text(await reading)) > 20
    assert local.active == 0


async def test_likeliest_tokens_are_mostly_those_of_the_reference(local: LocalBackend, bundled_folder: Path) -> None:
    await read(await local.stream(ask(max_tokens=1)))
    tokenizer = local._text.result().prompt.tokenizer
    ids = tokenizer.encode(PASSAGE, add_special_tokens=False).ids
    model = AutoModelForCausalLM.from_pretrained(bundled_folder, dtype=torch.float32)
    with torch.inference_mode():
        likeliest = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
    ends = range(2, len(ids), 2)
    found = await asyncio.gather(
        *(generated(local._engine, prompt=ids[:end], temperature=0.0, max_tokens=1) for end in ends)
    )
    same = sum(found[place] == [likeliest[end - 1]] for place, end in enumerate(ends))
    print(f"same top token in {same} of {len(ends)} places")
    assert same / len(ends) >= 0.9
