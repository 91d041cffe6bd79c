"""Response formats as constraints: what may come next, what is refused, what it costs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from generation.engine.grammar import KEPT_GRAMMARS, Constraint, Grammars
from generation.exceptions import EngineError, InvalidRequestError
from generation.request import ResponseFormat
from tests.byte_tokenizer import END, END_ID, byte_tokenizer

TOKENIZER = byte_tokenizer(special=(END, "<s>"), merged=(b'{"', b'":', b"true", b'\xc3\xa9"'))
TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    END.encode(),
    b"<s>",
    b'{"',
    b'":',
    b"true",
    b'\xc3\xa9"',
]
MERGED_START = 258
WAIT_S = 20


def made(**options: Any) -> Grammars:
    return Grammars(
        TOKENS,
        **{
            "special_ids": [END_ID, END_ID + 1],
            "end_ids": [END_ID],
            "encode": lambda text: TOKENIZER.encode(text, add_special_tokens=False).ids,
            **options,
        },
    )


@pytest.fixture(scope="module")
def grammars() -> Iterator[Grammars]:
    grammars = made()
    yield grammars
    grammars.close()


def constraint(grammars: Grammars, schema: Any = None) -> Constraint:
    kind = "json_object" if schema is None else "json_schema"
    return grammars.constraint(ResponseFormat(kind=kind, schema=schema)).result(WAIT_S)


def allowed(tested: Constraint) -> set[int]:
    mask = tested.mask()
    return {token_id for token_id in range(8 * len(mask)) if mask[token_id // 8] >> token_id % 8 & 1}


def after(tested: Constraint, text: str | list[int]) -> set[int]:
    """What may come after ``text``, each id of which may come."""
    for token_id in text.encode() if isinstance(text, str) else text:
        assert token_id in allowed(tested), f"{TOKENS[token_id]!r} may not come"
        tested.take(token_id)
    return allowed(tested)


def chars(ids: set[int]) -> str:
    return "".join(chr(token_id) for token_id in sorted(ids) if token_id < 128)


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 1, "maximum": 12}, "on": {"type": "boolean"}},
    "required": ["x", "on"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "text", "following"),
    [
        pytest.param(None, "", "{", id="any object begins"),
        pytest.param(None, '{"a', None, id="any object goes on"),
        pytest.param(POINT, "{", '\t\n\r "', id="a key or white space"),
        pytest.param(POINT, '{"', "x", id="the required key"),
        pytest.param(POINT, '{"x":1', "\t\n\r ,012", id="a number that can grow"),
        pytest.param(POINT, '{"x":12', "\t\n\r ,", id="a number at its limit"),
        pytest.param(POINT, '{"x":1,"on":', "\t\n\r ft", id="a boolean"),
        pytest.param({"type": "string", "enum": ["tea", "tee"]}, '"te', "ae", id="enum"),
        pytest.param({"type": "string", "pattern": "^[0-9]{3}$"}, '"12', "0123456789", id="pattern"),
        pytest.param({"const": 7}, "", "7", id="const"),
    ],
)
def test_only_these_characters_may_follow_when(grammars: Grammars, schema: Any, text: str, following: str) -> None:
    ids = after(constraint(grammars, schema), text)
    assert END_ID not in ids
    if following is not None:
        assert chars(ids) == following


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param(None, "{}", id="any object"),
        pytest.param(POINT, '{"x":3,"on":true}', id="schema"),
        pytest.param({"type": "array", "items": {"type": "null"}}, "[null]", id="array"),
    ],
)
def test_only_the_end_may_follow_when_all_is_said(grammars: Grammars, schema: Any, text: str) -> None:
    tested = constraint(grammars, schema)
    assert after(tested, text) == {END_ID}
    tested.take(END_ID)


def test_end_or_more_may_follow_when_the_answer_can_be_whole(grammars: Grammars) -> None:
    assert after(constraint(grammars, {"type": "integer"}), "4") >= {END_ID, ord("2")}


def test_tokens_of_several_bytes_count_by_their_bytes(grammars: Grammars) -> None:
    tested = constraint(grammars, POINT)
    assert MERGED_START in allowed(tested)
    assert MERGED_START + 1 in after(tested, [MERGED_START, ord("x")])
    assert MERGED_START + 2 in after(tested, [MERGED_START + 1, *b'3,"on', MERGED_START + 1])


def test_no_special_token_may_come_in_a_string(grammars: Grammars) -> None:
    ids = after(constraint(grammars, {"type": "string"}), '"')
    assert not ids & {END_ID, END_ID + 1}
    assert set(END.encode()) <= ids  # its text may be spelled


def test_characters_are_whole_before_a_string_ends(grammars: Grammars) -> None:
    ids = after(constraint(grammars, {"type": "string"}), [b'"'[0], 0xC3])
    assert ids <= set(range(0x80, 0xC0))
    # A token that would begin with such a byte has a whole character before the quote.
    assert MERGED_START + 3 in after(constraint(grammars, {"type": "string"}), '"')


def test_white_space_has_an_end(grammars: Grammars) -> None:
    assert chars(after(constraint(grammars, POINT), "{" + " " * 32)) == '"'


def test_constraints_of_one_schema_do_not_touch_each_other(grammars: Grammars) -> None:
    first, second = constraint(grammars, POINT), constraint(grammars, POINT)
    after(first, '{"x":')
    assert chars(allowed(second)) == "{"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        pytest.param({"type": "banana"}, "banana", id="no such type"),
        pytest.param({"type": "array", "uniqueItems": True}, "uniqueItems", id="keyword that cannot be kept to"),
        pytest.param({"$ref": "http://127.0.0.1:9/schema.json"}, "not present in a registry", id="foreign reference"),
        pytest.param({"$ref": "#"}, "cannot be carried out", id="refers to itself"),
        pytest.param({"enum": []}, "cannot be carried out", id="nothing fits"),
        pytest.param({"type": "string", "pattern": "(?=a)b"}, "regex parse error", id="pattern of another dialect"),
        pytest.param({"description": "x" * 40_000}, "40,0", id="too large"),
        pytest.param({"type": "integer", "multipleOf": 999_983}, "multipleOf", id="multiple that costs seconds"),
        pytest.param({"type": "integer", "multipleOf": 1e300}, "multipleOf", id="absurd multiple"),
        pytest.param(
            {"allOf": [{"multipleOf": 997}, {"items": {"multipleOf": 0.991}}]}, "multipleOf", id="multiples together"
        ),
        pytest.param({"multipleOf": "3"}, "multipleOf", id="multiple that is no number"),
    ],
)
def test_schema_is_refused_at_once_with_the_reason_when(grammars: Grammars, schema: Any, reason: str) -> None:
    begun = time.monotonic()
    with pytest.raises(InvalidRequestError) as caught:
        constraint(grammars, schema)
    assert caught.value.param == "response_format"
    assert reason in caught.value.message
    assert len(caught.value.message) < 500
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("depth", [300, 2_000])
def test_deep_schema_is_refused_and_ends_nothing(grammars: Grammars, depth: int) -> None:
    schema: Any = {}
    for _ in range(depth):
        schema = {"not": schema}
    with pytest.raises(InvalidRequestError, match=r"recursion limit|nested too deeply"):
        constraint(grammars, schema)
    assert chars(allowed(constraint(grammars))) == "{"


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(
            {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(900)}}, id="900 keys"
        ),
        pytest.param({"type": "array", "minItems": 10_000, "items": {"type": "integer"}}, id="10,000 items"),
        pytest.param({"type": "string", "pattern": "((a{1,500}){1,500}){1,500}"}, id="nested repetitions"),
        pytest.param(
            {"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}, id="recursive"
        ),
        pytest.param({"anyOf": [{"properties": {str(n): {"const": n}}} for n in range(300)]}, id="300 alternatives"),
    ],
)
def test_large_schema_is_compiled_within_the_time_and_answered(grammars: Grammars, schema: Any) -> None:
    tested = constraint(grammars, schema)
    for _ in range(50):
        ids = allowed(tested)
        if ids == {END_ID}:
            break
        tested.take(min(ids - {END_ID}))


def test_error_is_raised_when_the_library_has_lost_the_thread(grammars: Grammars) -> None:
    tested = constraint(grammars, POINT)
    tested.take(ord("x"))
    for _ in range(2):
        with pytest.raises(EngineError, match="response format cannot be kept to"):
            tested.mask()


def test_grammars_are_kept_up_to_a_number() -> None:
    grammars = made()
    for n in range(2 * KEPT_GRAMMARS):
        constraint(grammars, {"const": n})
    constraint(grammars, {"const": KEPT_GRAMMARS})  # used again, so not the oldest
    constraint(grammars, {"const": "new"})
    assert len(grammars._compiled) == KEPT_GRAMMARS
    assert json.dumps({"const": KEPT_GRAMMARS}) in grammars._compiled
    grammars.close()


def test_model_without_an_end_token_is_refused() -> None:
    grammars = made(end_ids=[])
    with pytest.raises(InvalidRequestError, match="end token"):
        constraint(grammars)
    grammars.close()


def test_nothing_is_compiled_when_closed() -> None:
    grammars = made()
    grammars.close()
    grammars.close()
    with pytest.raises(RuntimeError):
        constraint(grammars)
