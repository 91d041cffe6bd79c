from __future__ import annotations

import pytest

from generation.output import ToolCallDelta
from generation.protocol.tool_calls import ToolCallJoiner, tool_call_piece


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        pytest.param(
            ToolCallDelta(index=0, id="call_1", name="find"),
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "find", "arguments": ""}},
            id="first",
        ),
        pytest.param(
            ToolCallDelta(index=1, arguments='{"q": '), {"index": 1, "function": {"arguments": '{"q": '}}, id="further"
        ),
    ],
)
def test_piece_is_written_as_the_api_writes_it(piece, expected):
    assert tool_call_piece(piece) == expected


def test_calls_are_joined_by_their_index_when_their_pieces_are_mixed():
    joiner = ToolCallJoiner()
    joiner.push([ToolCallDelta(index=1, id="b", name="two"), ToolCallDelta(index=0, id="a", name="one")])
    joiner.push([ToolCallDelta(index=0, arguments="{}"), ToolCallDelta(index=1, arguments='{"x"')])
    joiner.push([ToolCallDelta(index=1, arguments=":1}")])
    assert joiner.calls == [
        {"id": "a", "type": "function", "function": {"name": "one", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "two", "arguments": '{"x":1}'}},
    ]


def test_there_are_no_calls_when_nothing_was_pushed():
    assert ToolCallJoiner().calls == []
