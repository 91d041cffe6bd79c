from __future__ import annotations

import pytest

from generation.admin.request_view import shown_messages, shown_parameters


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param("nonsense", [], id="no list"),
        pytest.param([{"role": "user", "content": "Hi\nyou"}], [("user", "Hi\nyou")], id="text"),
        pytest.param([{"role": "user", "content": [{"é": 1}]}], [("user", "[{&quot;é&quot;: 1}]")], id="content parts"),
        pytest.param([{"role": "us\x1ber"}], [("us\\x1ber", "")], id="control in the role"),
        pytest.param(["loose"], [("?", "loose")], id="no object"),
        pytest.param(
            [
                {"role": "assistant", "content": "", "tool_calls": [1]},
                {"role": "tool", "content": "5", "tool_call_id": "c"},
            ],
            [("assistant", "{&quot;tool_calls&quot;: [1]}"), ("tool", "5\n{&quot;tool_call_id&quot;: &quot;c&quot;}")],
            id="tool calls",
        ),
    ],
)
def test_messages_are_shown_when_they_are_any_json(messages: object, expected: list[tuple[str, str]]) -> None:
    shown = shown_messages(messages)
    assert [(each.role, each.content) for each in shown] == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param({}, [], id="none"),
        pytest.param([1], [], id="no object"),
        pytest.param(
            {"top_p": 1, "seed": 0, "stop": ["é\n"], "max_tokens": None},
            [("seed", "0"), ("stop", '["é\\n"]'), ("top_p", "1")],
            id="given ones, by name",
        ),
        pytest.param({"user": "1"}, [("user", '"1"')], id="string beside number"),
    ],
)
def test_parameters_are_shown_as_json_when_given(parameters: object, expected: list[tuple[str, str]]) -> None:
    assert [(each.name, each.value) for each in shown_parameters(parameters)] == expected
