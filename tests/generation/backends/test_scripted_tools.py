from __future__ import annotations

from dataclasses import replace

import pytest

from generation.backends.scripted import ScriptedBackend
from generation.backends.scripted_tools import ScriptedToolsBackend
from generation.exceptions import InvalidRequestError
from generation.output import StopReason, ToolCallDelta
from tests.generation.backends.asking import ask

FIND = {"type": "function", "function": {"name": "find"}}
WITH_TOOLS = replace(ask(asked_for=frozenset({"tools"})), tools=(FIND,))


def backend() -> ScriptedToolsBackend:
    calls = [{"name": "find", "arguments": {"q": "tea"}}]
    return ScriptedToolsBackend("tools", model="tools", pieces=["Hm."], tool_calls=calls)


async def test_calls_follow_the_text_in_parts_when_there_are_tools() -> None:
    stream = await backend().stream(WITH_TOOLS)
    deltas = [delta async for delta in stream]
    assert [delta.text for delta in deltas] == ["Hm.", "", "", "", ""]
    assert [piece for delta in deltas for piece in delta.tool_calls] == [
        ToolCallDelta(index=0, id="call_0", name="find"),
        ToolCallDelta(index=0, arguments='{"q":'),
        ToolCallDelta(index=0, arguments=' "tea'),
        ToolCallDelta(index=0, arguments='"}'),
    ]
    assert stream.outcome is not None
    assert stream.outcome.stop_reason is StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    "request_", [ask(), replace(WITH_TOOLS, tool_choice="none")], ids=["no tools", "none may be chosen"]
)
async def test_nothing_is_called_when_no_tool_may_be(request_) -> None:
    stream = await backend().stream(request_)
    assert [delta.text async for delta in stream] == ["Hm."]


async def test_tools_are_named_first_when_a_backend_has_none() -> None:
    request = replace(WITH_TOOLS, asked_for=frozenset({"parallel_tool_calls", "tool_choice", "tools"}))
    with pytest.raises(InvalidRequestError) as caught:
        await ScriptedBackend("plain", model="plain", pieces=["a"]).stream(request)
    assert caught.value.param == "tools"
