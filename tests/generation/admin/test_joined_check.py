from __future__ import annotations

from typing import Any

import pytest

from generation.admin.joined_check import joined_check
from generation.models import Stream


def delta(text: str) -> dict[str, Any]:
    return {"text": text, "first_token": 0, "end_token": 1, "made_s": None, "sent_s": 0.5, "holds": []}


class TestJoinedCheck:
    def test_it_holds_when_deltas_make_the_text(self) -> None:
        check = joined_check(Stream(state="done", text="ab"), [(1, [delta("a"), delta("b")])])
        assert (check.holds, check.sentence) == (True, "Joined deltas equal the stored text.")

    def test_it_holds_when_there_is_neither_text_nor_delta(self) -> None:
        assert joined_check(Stream(state="failed"), []).holds is True

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            pytest.param("aX", "Joined deltas differ from the stored text, from character 2 on.", id="other text"),
            pytest.param("a", "Joined deltas differ from the stored text, from character 2 on.", id="shorter text"),
            pytest.param("abc", "Joined deltas differ from the stored text, from character 3 on.", id="longer text"),
        ],
    )
    def test_it_names_the_first_difference_when_broken(self, text: str, sentence: str) -> None:
        check = joined_check(Stream(state="done", text=text), [(1, [delta("a"), delta("b")])])
        assert (check.holds, check.sentence) == (False, sentence)

    def test_it_names_the_holes_when_deltas_are_missing(self) -> None:
        deltas = [(2, [delta("b")]), (5, [delta("e")])]
        check = joined_check(Stream(state="done", text="abcde"), deltas)
        assert check.sentence.endswith("from character 1 on. Missing deltas: 1, 3–4.")

    def test_it_is_open_when_the_stream_runs(self) -> None:
        assert joined_check(Stream(state="running"), [(1, [delta("a")])]).holds is None
