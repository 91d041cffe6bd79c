import pytest

from generation.text import Vocabulary
from generation.text.cases import Case, CaseError, parse_case
from generation.text.explain import StopOptions
from tests.byte_tokenizer import byte_tokenizer


class TestParseCase:
    def test_ids_are_read_with_their_options(self) -> None:
        line = (
            b'{"id": "x", "ids": [1, 2], "tokenizer": "t",'
            b' "stop": "s", "include_stop": true, "skip_special_tokens": false}'
        )
        assert parse_case(line) == Case(
            id="x",
            token_ids=(1, 2),
            tokenizer="t",
            options=StopOptions(stop=("s",), include_stop=True, skip_special_tokens=False),
        )

    def test_bytes_are_read_from_hex(self) -> None:
        assert parse_case(b'{"byte_pieces": ["e0a4", "", "86"], "note": 1}') == Case(
            byte_pieces=(b"\xe0\xa4", b"", b"\x86"), options=StopOptions()
        )

    def test_pieces_are_read_as_they_are(self) -> None:
        case = parse_case('{"id": 7, "pieces": ["आ", "\\ud83d"], "stop": null}'.encode())
        assert case == Case(id=7, pieces=("आ", "\ud83d"), options=StopOptions())

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            pytest.param(b"nope", "not JSON", id="no JSON"),
            pytest.param(b"\xff{}", "not JSON", id="no UTF-8"),
            pytest.param(b"[" * 100_000, "not JSON", id="deep nesting"),
            pytest.param(b"[1]", "must be a JSON object, got a list", id="list"),
            pytest.param(b"null", "must be a JSON object, got null", id="null"),
            pytest.param(b"{}", "exactly one of ids, byte_pieces, pieces, got none", id="no input"),
            pytest.param(b'{"ids": [], "pieces": []}', "got ids, pieces", id="two inputs"),
            pytest.param(b'{"ids": [1]}', "'ids' need 'tokenizer'", id="ids without tokenizer"),
            pytest.param(b'{"ids": [1], "tokenizer": 3}', "'ids' need 'tokenizer'", id="tokenizer of the wrong type"),
            pytest.param(b'{"ids": 1, "tokenizer": "t"}', "'ids' must be a list, got a number", id="ids no list"),
            pytest.param(b'{"ids": [-1], "tokenizer": "t"}', "0 or more, got -1", id="negative id"),
            pytest.param(b'{"ids": [true], "tokenizer": "t"}', "0 or more, got true", id="true as id"),
            pytest.param(b'{"ids": [1.0], "tokenizer": "t"}', "0 or more, got 1.0", id="fraction as id"),
            pytest.param(b'{"ids": ["1"], "tokenizer": "t"}', '0 or more, got "1"', id="string as id"),
            pytest.param(b'{"byte_pieces": ["e"]}', "must be hex digits", id="half a byte"),
            pytest.param(b'{"byte_pieces": [1]}', "must hold strings only, got a number", id="number as bytes"),
            pytest.param(b'{"byte_pieces": "e0"}', "must be a list, got a string", id="bytes no list"),
            pytest.param(b'{"pieces": [null]}', "must hold strings only, got null", id="null as text"),
            pytest.param(b'{"pieces": {}}', "must be a list, got an object", id="pieces no list"),
            pytest.param(b'{"pieces": [], "stop": [""]}', "must not hold an empty string", id="empty stop"),
            pytest.param(b'{"pieces": [], "include_stop": 1}', "must be true or false, got a number", id="flag"),
            pytest.param(b'{"pieces": [], "id": true}', "got true or false", id="id of the wrong type"),
        ],
    )
    def test_line_is_refused_with_the_reason_when_it_is_no_case(self, line: bytes, problem: str) -> None:
        with pytest.raises(CaseError, match=problem.replace("[", r"\[")):
            parse_case(line)


class TestExplain:
    def test_tokenizer_is_looked_up_by_name(self) -> None:
        asked = []

        def vocabulary(name: str) -> Vocabulary:
            asked.append(name)
            return Vocabulary(byte_tokenizer())

        assert parse_case(b'{"ids": [97, 98], "tokenizer": "t"}').explain(vocabulary).text == "ab"
        assert asked == ["t"]

    @pytest.mark.parametrize("per_push", [1, 2, 9])
    @pytest.mark.parametrize("line", [b'{"byte_pieces": ["e0", "a4", "86", "41"]}', '{"pieces": ["आ", "A"]}'.encode()])
    def test_text_is_the_same_when_pieces_are_handed_over_together(self, line: bytes, per_push: int) -> None:
        assert parse_case(line).explain(Vocabulary, per_push=per_push).text == "आA"
