import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from generation.exceptions import InvalidRequestError
from generation.text.stop_strings import MAX_STOP_CHARS, StopMatcher, check_stops

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "stop_strings.jsonl").read_text(encoding="utf-8").splitlines()
]


def matched(case: dict[str, Any], pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(case["stop"], include_stop=case["include_stop"])
    shown = "".join(matcher.push(piece) for piece in pieces) + matcher.flush()
    return shown, matcher.matched


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']} {case['source']}" for case in CASES])
class TestReportedCases:
    def test_result_is_right_when_cut_as_reported(self, case: dict[str, Any]) -> None:
        assert matched(case, case["pieces"]) == (case["text"], case["stop_string"])

    def test_result_is_the_same_when_cut_otherwise(self, case: dict[str, Any]) -> None:
        text = "".join(case["pieces"])
        expected = (case["text"], case["stop_string"])
        assert matched(case, [text]) == expected
        assert matched(case, list(text)) == expected
        for first, second in itertools.combinations_with_replacement(range(len(text) + 1), 2):
            assert matched(case, [text[:first], text[first:second], text[second:]]) == expected


class TestStopMatcher:
    def test_only_the_possible_start_waits(self) -> None:
        matcher = StopMatcher(["<|sep|>"])
        assert matcher.push("x <") == "x "
        assert matcher.held == 1
        assert matcher.push("|se") == ""
        assert matcher.held == 4
        assert matcher.push("q|>") == "<|seq|>"
        assert matcher.held == 0

    def test_text_before_waits_no_longer_when_a_shorter_start_takes_over(self) -> None:
        matcher = StopMatcher(["aab"])
        assert [matcher.push(char) for char in "aaaab"] == ["", "", "a", "a", ""]
        assert matcher.matched == "aab"

    def test_nothing_waits_when_the_stop_is_included(self) -> None:
        matcher = StopMatcher(["STOP"], include_stop=True)
        assert [matcher.push(piece) for piece in ("go ST", "OP now", "more")] == ["go ST", "OP", ""]
        assert matcher.held == 0
        assert matcher.matched == "STOP"

    def test_waiting_text_comes_out_when_the_generation_ends(self) -> None:
        matcher = StopMatcher(["TRE\nAAAA"])
        assert matcher.push("DUE TRE") == "DUE "
        assert matcher.flush() == "TRE"
        assert matcher.flush() == ""

    def test_nothing_follows_when_a_stop_has_matched(self) -> None:
        matcher = StopMatcher(["b"])
        assert matcher.push("abc") == "a"
        assert matcher.push("d") == ""
        assert matcher.flush() == ""

    def test_inner_stop_wins_when_it_completes_first(self) -> None:
        matcher = StopMatcher(["abcd", "bc"])
        assert matcher.push("abc") == "a"
        assert matcher.matched == "bc"

    def test_decomposed_text_does_not_match_a_composed_stop(self) -> None:
        matcher = StopMatcher(["é"])
        assert matcher.push("e\u0301") == "e\u0301"
        assert matcher.matched is None

    def test_nothing_is_stopped_when_there_are_no_stops(self) -> None:
        matcher = StopMatcher([])
        assert matcher.push("text") == "text"
        assert matcher.held == 0
        assert matcher.flush() == ""


class TestCheckStops:
    @pytest.mark.parametrize(
        ("stop", "expected"),
        [
            pytest.param(None, (), id="none"),
            pytest.param("\n", ("\n",), id="one string"),
            pytest.param(["a", "b"], ("a", "b"), id="list"),
            pytest.param(("a", "a", "है", "😀"), ("a", "a", "है", "😀"), id="four"),
            pytest.param([], (), id="empty list"),
        ],
    )
    def test_stops_are_returned_when_they_are_right(self, stop: object, expected: tuple[str, ...]) -> None:
        assert check_stops(stop) == expected

    @pytest.mark.parametrize(
        ("stop", "problem"),
        [
            pytest.param("", "must not hold an empty string", id="empty string"),
            pytest.param(["a", ""], "must not hold an empty string", id="empty string in a list"),
            pytest.param(7, "must be a string or a list of strings, got int", id="number"),
            pytest.param({"a": 1}, "must be a string or a list of strings, got dict", id="object"),
            pytest.param(["a", 7], "must hold strings only, got int", id="number in a list"),
            pytest.param(["a", None], "must hold strings only, got NoneType", id="null in a list"),
            pytest.param(list("abcde"), "may hold at most 4 strings, got 5", id="five"),
            pytest.param(["\ud83d"], "must not hold a lone surrogate", id="lone surrogate"),
            pytest.param("x" * (MAX_STOP_CHARS + 1), "at most 10000 characters, got 10001", id="too long"),
        ],
    )
    def test_request_is_refused_when_a_stop_is_wrong(self, stop: object, problem: str) -> None:
        with pytest.raises(InvalidRequestError, match=problem) as refused:
            check_stops(stop)
        assert refused.value.param == "stop"
        assert refused.value.status == 400
