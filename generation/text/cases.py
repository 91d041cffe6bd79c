"""One line of a case file in, a checked `Case` out; or a CaseError that says what is wrong with the line.

A case is a JSON object with ``ids`` and ``tokenizer``, or ``byte_pieces`` (hex), or ``pieces`` (text), and optionally
``id``, ``stop``, ``include_stop`` and ``skip_special_tokens``. Other keys are notes and are not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from generation.exceptions import InvalidRequestError
from generation.text.detokenizer import Vocabulary
from generation.text.explain import Explanation, StopOptions, explain_bytes, explain_ids, explain_pieces
from generation.text.stop_strings import check_stops

INPUTS = ("ids", "byte_pieces", "pieces")


class CaseError(ValueError):
    """A case that cannot be run, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A stream to run: exactly one of ``token_ids`` (of the named tokenizer), ``byte_pieces`` and ``pieces`` is set."""

    id: str | int | None = None
    options: StopOptions
    token_ids: tuple[int, ...] | None = None
    tokenizer: str = ""
    byte_pieces: tuple[bytes, ...] | None = None
    pieces: tuple[str, ...] | None = None

    def explain(self, vocabulary: Callable[[str], Vocabulary], *, per_push: int = 1) -> Explanation:
        """Run the case; ``vocabulary`` finds a tokenizer by its name."""
        if self.token_ids is not None:
            return explain_ids(vocabulary(self.tokenizer), self.token_ids, self.options, per_push=per_push)
        if self.byte_pieces is not None:
            return explain_bytes(self.byte_pieces, self.options, per_push=per_push)
        return explain_pieces(self.pieces or (), self.options, per_push=per_push)


def parse_case(line: bytes) -> Case:
    """Read one line; raise CaseError for anything that is not a case."""
    try:
        fields = json.loads(line)
    # RecursionError: a line of a hundred thousand brackets.
    except (ValueError, RecursionError) as exc:
        raise CaseError(f"not JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise CaseError(f"must be a JSON object, got {_kind(fields)}")
    given = [name for name in INPUTS if name in fields]
    if len(given) != 1:
        raise CaseError(f"must have exactly one of {', '.join(INPUTS)}, got {', '.join(given) or 'none'}")
    return Case(
        id=_case_id(fields.get("id")),
        options=_options(fields),
        token_ids=_token_ids(fields["ids"]) if "ids" in fields else None,
        tokenizer=_tokenizer(fields) if "ids" in fields else "",
        byte_pieces=_byte_pieces(fields["byte_pieces"]) if "byte_pieces" in fields else None,
        pieces=_pieces(fields["pieces"]) if "pieces" in fields else None,
    )


def _case_id(value: object) -> str | int | None:
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    raise CaseError(f"'id' must be a string or a number, got {_kind(value)}")


def _options(fields: Mapping[str, object]) -> StopOptions:
    try:
        stop = check_stops(fields.get("stop"))
    except InvalidRequestError as exc:
        raise CaseError(exc.message) from exc
    return StopOptions(
        stop=stop,
        include_stop=_flag(fields, "include_stop", default=False),
        skip_special_tokens=_flag(fields, "skip_special_tokens", default=True),
    )


def _flag(fields: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise CaseError(f"'{name}' must be true or false, got {_kind(value)}")
    return value


def _tokenizer(fields: Mapping[str, object]) -> str:
    name = fields.get("tokenizer")
    if not isinstance(name, str) or not name:
        raise CaseError("'ids' need 'tokenizer', the name of the tokenizer that they belong to")
    return name


def _token_ids(value: object) -> tuple[int, ...]:
    return tuple(_token_id(one) for one in _list(value, "ids"))


def _token_id(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise CaseError(f"'ids' must be whole numbers of 0 or more, got {json.dumps(value)[:40]}")
    return value


def _byte_pieces(value: object) -> tuple[bytes, ...]:
    try:
        return tuple(bytes.fromhex(_text(piece, "byte_pieces")) for piece in _list(value, "byte_pieces"))
    except CaseError:
        raise
    except ValueError as exc:
        raise CaseError(f"'byte_pieces' must be hex digits: {exc}") from exc


def _pieces(value: object) -> tuple[str, ...]:
    return tuple(_text(piece, "pieces") for piece in _list(value, "pieces"))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise CaseError(f"'{name}' must hold strings only, got {_kind(value)}")
    return value


def _list(value: object, name: str) -> list[object]:
    if not isinstance(value, list):
        raise CaseError(f"'{name}' must be a list, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    """The JSON word for the type of ``value``."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
