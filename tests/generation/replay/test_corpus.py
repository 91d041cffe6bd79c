from __future__ import annotations

import io
from pathlib import Path

import pytest

from generation.replay.corpus import BadLine, CorpusFormat, CorpusItem, count_prompts, format_of, read_corpus
from generation.request import ChatMessage, GenerationRequest, SamplingParams

DATA = Path(__file__).parents[2] / "data"
MODEL = {"model": "default"}


def read(raw: bytes, corpus_format: CorpusFormat | None = None) -> list[CorpusItem | BadLine]:
    return list(read_corpus(io.BytesIO(raw), MODEL, corpus_format))


def prompts(items: list[CorpusItem | BadLine]) -> list[tuple[int, str, str]]:
    return [
        (item.line_number, item.item_id, item.request.messages[0].content)
        for item in items
        if isinstance(item, CorpusItem)
    ]


def test_each_line_is_a_prompt_when_the_file_is_text() -> None:
    with (DATA / "corpus.txt").open("rb") as lines:
        items = list(read_corpus(lines, MODEL, CorpusFormat.TEXT))
    assert prompts(items) == [
        (1, "1", "Why is the sky blue?"),
        (3, "3", "नमस्ते! चाय कैसे बनाते हैं?"),
        (4, "4", "  A line that keeps its indent"),
        (5, "5", "Two\u2028halves of one prompt 👩‍👩‍👧"),
        (6, "6", '{"prompt": "not an object, in a text file"}'),
    ]


def test_each_object_is_a_request_when_the_file_is_jsonl() -> None:
    with (DATA / "corpus.jsonl").open("rb") as lines:
        items = list(read_corpus(lines, {"model": "default", "max_tokens": 50, "seed": 1}, CorpusFormat.JSONL))
    assert items == [
        CorpusItem(
            line_number=1,
            item_id="sky",
            request=GenerationRequest(
                model="default",
                messages=(ChatMessage(role="user", content="Why is the sky blue?"),),
                sampling=SamplingParams(max_tokens=50, seed=1),
                asked_for=frozenset({"max_tokens", "seed"}),
            ),
        ),
        BadLine(line_number=2, error="The line is not valid JSON: Expecting value: line 1 column 12 (char 11)."),
        CorpusItem(
            line_number=3,
            item_id="3",
            request=GenerationRequest(
                model="default",
                messages=(
                    ChatMessage(role="system", content="Be short."),
                    ChatMessage(role="user", content="Name a tea."),
                ),
                sampling=SamplingParams(max_tokens=8, seed=1, temperature=0.5, stop=("\n",)),
                asked_for=frozenset({"max_completion_tokens", "seed", "temperature", "stop"}),
            ),
        ),
        CorpusItem(
            line_number=5,
            item_id="17",
            request=GenerationRequest(
                model="default",
                messages=(ChatMessage(role="user", content="A number as id"),),
                sampling=SamplingParams(max_tokens=50),
                asked_for=frozenset({"max_tokens"}),
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param(b"\xff\xfe", "The line is not valid UTF-8.", id="bytes"),
        pytest.param(b"[1]", "The line must be a JSON object.", id="array"),
        pytest.param(b'{"id": 1}', "The line must have either 'prompt' or 'messages'.", id="nothing to ask"),
        pytest.param(
            b'{"prompt": "a", "messages": []}', "The line must have either 'prompt' or 'messages'.", id="both"
        ),
        pytest.param(b'{"prompt": 5}', "'prompt' must be a string that is not blank.", id="number"),
        pytest.param(b'{"prompt": " \\n"}', "'prompt' must be a string that is not blank.", id="blank"),
        pytest.param(
            b'{"prompt": "a", "model": "b"}', "'model' holds for the whole run and cannot stand in a line.", id="model"
        ),
        pytest.param(b'{"prompt": "a", "temprature": 0}', "Unknown field 'temprature'.", id="misspelt"),
        pytest.param(
            b'{"prompt": "a", "temperature": 3}',
            "'temperature' is not valid: Input should be less than or equal to 2.",
            id="out of range",
        ),
        pytest.param(
            b'{"prompt": "a", "id": true}', "'id' must be a string of at most 200 characters, or an integer.", id="id"
        ),
        pytest.param(
            b'{"prompt": "a", "id": "' + b"x" * 201 + b'"}',
            "'id' must be a string of at most 200 characters, or an integer.",
            id="long id",
        ),
    ],
)
def test_a_line_is_reported_and_the_next_one_read_when_it_is_bad(line: bytes, error: str) -> None:
    items = read(line + b'\n{"prompt": "good"}\n', CorpusFormat.JSONL)
    assert items[0] == BadLine(line_number=1, error=error)
    assert items[0].item_id == "1"
    assert prompts(items) == [(2, "2", "good")]


def test_a_text_line_is_reported_when_it_is_not_utf_8() -> None:
    items = read(b"one\ncaf\xe9\nthree\n", CorpusFormat.TEXT)
    assert items[1] == BadLine(line_number=2, error="The line is not valid UTF-8.")
    assert prompts(items) == [(1, "1", "one"), (3, "3", "three")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('\n  {"prompt": "a"}\n', [(2, "2", "a")], id="object"),
        pytest.param("a\n{\n", [(1, "1", "a"), (2, "2", "{")], id="text"),
        pytest.param('\ufeff{"prompt": "a"}', [(1, "1", "a")], id="byte order mark"),
        pytest.param("a\r\nb\r\n", [(1, "1", "a"), (2, "2", "b")], id="CRLF"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_the_first_line_decides_when_no_format_is_known(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert prompts(read(text.encode())) == expected


def test_lines_are_read_only_as_far_as_items_are_taken() -> None:
    lines = iter([b"one\n", b"two\n", b"three\n"])
    next(read_corpus(lines, MODEL))
    assert list(lines) == [b"two\n", b"three\n"]


@pytest.mark.parametrize(
    ("name", "corpus_format"),
    [
        ("a/b.jsonl", CorpusFormat.JSONL),
        ("B.NDJSON", CorpusFormat.JSONL),
        ("prompts.txt", CorpusFormat.TEXT),
        ("prompts", CorpusFormat.TEXT),
        ("-", None),
    ],
)
def test_the_format_is_told_by_the_name(name: str, corpus_format: CorpusFormat | None) -> None:
    assert format_of(name) is corpus_format


def test_blank_lines_are_no_prompts_when_counted() -> None:
    assert count_prompts([b"a\n", b"\n", b" \r\n", b"b"]) == 2
