"""The real SmolLM2, once: its tokenizer, its template, and an answer that makes sense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from generation.backends.chat_prompt import ChatPrompt
from generation.backends.local import LocalBackend
from generation.engine.model_fetch import prepare_model
from generation.output import StopReason
from generation.request import ChatMessage, ResponseFormat
from generation.text import TextPipeline, Vocabulary
from streamsite.env import BASE_DIR
from tests.generation.backends.asking import ask, read, text

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

QUESTIONS = ("Write one sentence about rain.", "Count to ten.", "Tea or coffee?", "Why is the sky blue? Be short.")


@pytest.fixture(scope="session")
def bundled_folder() -> Path:
    return prepare_model("", BASE_DIR / "var")


@pytest.fixture(scope="module")
def local(bundled_folder: Path) -> Iterator[LocalBackend]:
    # In bf16 a step of several sequences differs from one of each in its last bits.
    backend = LocalBackend("test", model=str(bundled_folder), threads=1, weights="f32")
    yield backend
    backend.close()


async def test_answer_is_right_and_ends_by_itself_when_asked_for_a_capital(local: LocalBackend) -> None:
    stream = await local.stream(ask("What is the capital of France?", max_tokens=60, temperature=0.0))
    deltas = await read(stream)
    assert text(deltas) == "The capital of France is Paris."
    assert stream.outcome is not None
    assert stream.outcome.stop_reason is StopReason.EOS
    assert len(deltas) >= 7  # it came word by word


async def test_greedy_answers_equal_the_librarys_when_several_run_together(
    local: LocalBackend, bundled_folder: Path
) -> None:
    questions = [ask(question, max_tokens=24, temperature=0.0) for question in QUESTIONS]
    streams = [await local.stream(question) for question in questions]
    await asyncio.gather(*(read(stream) for stream in streams))
    model = AutoModelForCausalLM.from_pretrained(bundled_folder, dtype=torch.float32)
    for question, stream in zip(questions, streams, strict=True):
        prompt_ids = ChatPrompt(bundled_folder).encode(question.messages)
        whole = model.generate(
            torch.tensor([prompt_ids]),
            attention_mask=torch.ones(1, len(prompt_ids), dtype=torch.long),
            do_sample=False,
            temperature=None,
            top_p=None,
            max_new_tokens=24,
        )
        assert stream.token_ids == whole[0, len(prompt_ids) :].tolist(), question.messages[0].content


async def test_text_is_the_same_when_several_share_one_computation_of_their_beginning(local: LocalBackend) -> None:
    story = "A ship sailed north, and every day the captain wrote down the wind, the sea and the birds. " * 6
    questions = [
        ask(f"{story} {end}", max_tokens=16, temperature=1.0, seed=seed)
        for end, seed in (("Why?", 1), ("Why?", 2), ("Why?", 3), ("What did he see, and what did he think of it?", 4))
    ]
    streams = [await local.stream(question) for question in questions]
    together = await asyncio.gather(*(read(stream) for stream in streams))
    length = streams[0].prompt_tokens or 0
    assert length > 128
    first, second, third, other = (stream.cached_tokens or 0 for stream in streams)
    assert (second, third) == (length - 1, length - 1)
    assert other > 100 > first
    alone = [text(await read(await local.stream(question))) for question in reversed(questions)]
    assert [text(deltas) for deltas in together] == alone[::-1]


async def test_text_of_a_seed_is_the_same_when_alone_and_beside_others(local: LocalBackend) -> None:
    questions = [ask(question, max_tokens=24, temperature=1.0, seed=5) for question in QUESTIONS]
    alone = [text(await read(await local.stream(question))) for question in questions]
    streams = [await local.stream(question) for question in questions]
    together = await asyncio.gather(*(read(stream) for stream in streams))
    assert [text(deltas) for deltas in together] == alone
    # The template's beginning at least was there already; a short prompt's rest may have made room for another's.
    assert all((stream.cached_tokens or 0) >= 20 for stream in streams)


CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 40},
        "inhabitants": {"type": "integer", "minimum": 0, "maximum": 99_999_999},
        "capital": {"type": "boolean"},
        "rivers": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
    },
    "required": ["city", "inhabitants", "capital", "rivers"],
    "additionalProperties": False,
}


async def test_answers_are_json_of_the_schema_when_a_response_format_is_given(local: LocalBackend) -> None:
    form = ResponseFormat(kind="json_schema", name="city", schema=CITY)
    question = "Describe Paris as JSON with city, inhabitants, capital and rivers."
    streams = [
        await local.stream(ask(question, max_tokens=160, temperature=0.8, seed=seed, response_format=form))
        for seed in range(4)
    ]
    answers = [json.loads(text(deltas)) for deltas in await asyncio.gather(*(read(stream) for stream in streams))]
    for answer in answers:
        assert list(answer) == ["city", "inhabitants", "capital", "rivers"]
        assert 0 <= answer["inhabitants"] <= 99_999_999
        assert isinstance(answer["capital"], bool)
        assert 1 <= len(answer["rivers"]) <= 3
        assert all(len(name) <= 20 for name in [*answer["rivers"], answer["city"][:20]])
    assert all(stream.outcome is not None and stream.outcome.stop_reason is StopReason.EOS for stream in streams)
    assert any("Paris" in answer["city"] for answer in answers)


def test_prompt_is_the_known_one_when_the_template_is_applied(bundled_folder: Path) -> None:
    prompt = ChatPrompt(bundled_folder)
    ids = prompt.encode([ChatMessage(role="user", content="Hello, world!")])
    assert prompt.tokenizer.decode(ids, skip_special_tokens=False) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello, world!<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids[-13:] == [1, 4093, 198, 19556, 28, 905, 17, 2, 198, 1, 520, 9531, 198]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello, world!", [19556, 28, 905, 17]),
        ("in 2026", [254, 216, 34, 32, 34, 38]),
        ("<|im_start|><|im_end|><|endoftext|>", [1, 2, 0]),
        ("<repo_name>", [3]),
    ],
)
def test_ids_are_the_known_ones_when_text_is_encoded(bundled_folder: Path, text: str, ids: list[int]) -> None:
    tokenizer = Tokenizer.from_file(str(bundled_folder / "tokenizer.json"))
    assert tokenizer.encode(text, add_special_tokens=False).ids == ids


def test_text_comes_back_when_its_ids_are_streamed(bundled_folder: Path) -> None:
    vocabulary = Vocabulary.load(Tokenizer.from_file(str(bundled_folder / "tokenizer.json")))
    for original in ("आपका चाय ☕ तैयार है", "👨‍👩‍👧‍👦 and 1, 22, 333", "  spaces\n\n\tand lines "):
        pipeline = TextPipeline(vocabulary)
        ids = vocabulary.tokenizer.encode(original, add_special_tokens=False).ids
        deltas = [delta for token_id in ids for delta in pipeline.push(token_id)] + pipeline.flush()
        assert text(deltas) == original
