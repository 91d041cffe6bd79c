"""Frames out and events in, at every cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.protocol.sse import DONE, EventDecoder, comment_frame, data_frame

CASES = [json.loads(line) for line in Path("tests/data/event_stream.jsonl").read_text().split("\n") if line]


def events(pieces: list[bytes]) -> list[str]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.push(piece)] + decoder.flush()


class TestFrames:
    def test_data_is_one_line_and_a_blank_one(self) -> None:
        assert data_frame('{"a":1}') == b'data: {"a":1}\n\n'

    def test_comment_starts_with_a_colon(self) -> None:
        assert comment_frame("keep-alive") == b": keep-alive\n\n"

    def test_done_is_the_word_that_clients_know(self) -> None:
        assert DONE == b"data: [DONE]\n\n"

    def test_refuses_text_that_would_end_the_line_for_some_clients(self) -> None:
        with pytest.raises(UnicodeEncodeError):
            data_frame('{"a":"\u2028"}')


class TestEventDecoder:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
    def test_gives_the_listed_events_when_the_chunks_come_as_reported(self, case: dict) -> None:
        assert events([bytes.fromhex(chunk) for chunk in case["chunks"]]) == case["data"]

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
    def test_gives_the_same_events_when_the_bytes_are_cut_anywhere(self, case: dict) -> None:
        whole = b"".join(bytes.fromhex(chunk) for chunk in case["chunks"])
        for size in range(1, 8):
            assert events([whole[at : at + size] for at in range(0, len(whole), size)]) == case["data"]
        for cut in range(len(whole) + 1):
            assert events([whole[:cut], whole[cut:]]) == case["data"]

    def test_delivers_an_event_at_once_when_a_carriage_return_ends_it(self) -> None:
        decoder = EventDecoder()
        assert decoder.push(b"data: a\r\r") == ["a"]
        assert decoder.push(b"\ndata: b\n\n") == ["b"]

    @settings(max_examples=500)
    @given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))), st.data())
    def test_gives_back_what_was_sent_when_lines_end_in_any_way(self, sent: list[str], data: st.DataObject) -> None:
        ends = st.sampled_from(["\n", "\r\n", "\r"])
        wire = "".join(
            f"data: {text}" + data.draw(ends) + data.draw(ends.filter(lambda end: end != "\n")) for text in sent
        )
        pieces, rest = [], wire.encode()
        while rest:
            size = data.draw(st.integers(1, 9))
            pieces.append(rest[:size])
            rest = rest[size:]
        # "\r" and then "\r\n" or "\r" are two line ends; "\r" then "\n" would be one, so the second is never "\n".
        assert events(pieces) == sent
