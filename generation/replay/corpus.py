"""Corpora: lines of a file in, requests out; a line that is none becomes a `BadLine`, and the next one is read.

Text: one prompt a line. JSONL: one object a line with ``prompt`` or ``messages``, perhaps an ``id``, and sampling
fields that win over the run's. Lines end with LF (or CRLF) only, because prompts may hold U+2028. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from generation.exceptions import InvalidRequestError
from generation.protocol.completion_request import completion_request, load_json_object
from generation.request import GenerationRequest

MAX_ID_CHARS = 200
JSONL_SUFFIXES = (".jsonl", ".ndjson")

#: What holds for a whole run, not for a line.
_RUN_FIELDS = ("model", "stream", "stream_options")


class CorpusFormat(StrEnum):
    """How a line becomes a request."""

    TEXT = "text"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusItem:
    """One prompt: the number of its line (from 1), its own id, and what to ask for."""

    line_number: int
    item_id: str
    request: GenerationRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is no prompt, and why."""

    line_number: int
    error: str

    @property
    def item_id(self) -> str:
        return str(self.line_number)


def format_of(name: str) -> CorpusFormat | None:
    """The format that a file's name tells; None when it is standard input (``-``)."""
    if name == "-":
        return None
    return CorpusFormat.JSONL if name.lower().endswith(JSONL_SUFFIXES) else CorpusFormat.TEXT


def read_corpus(
    lines: Iterable[bytes], defaults: Mapping[str, Any], corpus_format: CorpusFormat | None = None
) -> Iterator[CorpusItem | BadLine]:
    """Read lines (cut at LF) as they are needed; blank ones are skipped.

    ``defaults`` are the request fields of the run, ``model`` among them. Without a format, the first line that is not
    blank decides: JSONL when it opens an object.
    """
    for line_number, raw in enumerate(lines, start=1):
        line = raw.removeprefix(b"\xef\xbb\xbf") if line_number == 1 else raw
        if not line.strip():
            continue
        if corpus_format is None:
            corpus_format = CorpusFormat.JSONL if line.lstrip().startswith(b"{") else CorpusFormat.TEXT
        parse = _from_json if corpus_format is CorpusFormat.JSONL else _from_text
        try:
            item_id, fields = parse(line)
            request = completion_request(_with_defaults(fields, defaults)).generation
        except InvalidRequestError as exc:
            # The checks are those of a request, whose body the line is here.
            yield BadLine(line_number=line_number, error=exc.message.replace("The body", "The line", 1))
        else:
            yield CorpusItem(line_number=line_number, item_id=item_id or str(line_number), request=request)


def count_prompts(lines: Iterable[bytes]) -> int:
    """How many items and bad lines these lines make."""
    return sum(1 for line in lines if line.strip())


def _with_defaults(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A line's own field wins, the older and the newer name of the token limit being one field."""
    limited = "max_tokens" in fields or "max_completion_tokens" in fields
    kept = {name: value for name, value in defaults.items() if not (limited and name == "max_tokens")}
    return {**kept, **fields}


def _from_text(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        prompt = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("The line is not valid UTF-8.") from exc
    return "", {"messages": _messages(prompt)}


def _from_json(line: bytes) -> tuple[str, dict[str, Any]]:
    fields = load_json_object(line)
    item_id = _item_id(fields.pop("id", ""))
    for name in _RUN_FIELDS:
        if name in fields:
            raise InvalidRequestError(f"'{name}' holds for the whole run and cannot stand in a line.", param=name)
    if ("prompt" in fields) == ("messages" in fields):
        raise InvalidRequestError("The line must have either 'prompt' or 'messages'.", param="prompt")
    if "prompt" in fields:
        prompt = fields.pop("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidRequestError("'prompt' must be a string that is not blank.", param="prompt")
        fields["messages"] = _messages(prompt)
    return item_id, fields


def _item_id(value: object) -> str:
    item_id = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(item_id, str) and len(item_id) <= MAX_ID_CHARS:
        return item_id
    raise InvalidRequestError(f"'id' must be a string of at most {MAX_ID_CHARS} characters, or an integer.", param="id")


def _messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]
