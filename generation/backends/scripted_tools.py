"""A scripted backend that calls tools, for tests of all that carries tool calls.

The calls come after the pieces of text, in parts as models write them: id and name first, then the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generation.backends.scripted import ScriptedBackend
from generation.backends.scripted_stream import ScriptedStream
from generation.output import ToolCallDelta
from generation.request import GenerationRequest

#: Characters of the arguments in one delta.
PART_CHARS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """One call: the name of the tool and its arguments."""

    name: str
    arguments: Mapping[str, Any]

    def pieces(self, index: int) -> Iterator[ToolCallDelta]:
        yield ToolCallDelta(index=index, id=f"call_{index}", name=self.name)
        arguments = json.dumps(self.arguments)
        for start in range(0, len(arguments), PART_CHARS):
            yield ToolCallDelta(index=index, arguments=arguments[start : start + PART_CHARS])


class ScriptedToolsBackend(ScriptedBackend):
    """Answers as a `ScriptedBackend`, then makes ``tool_calls``, if the request has tools and allows their choice."""

    supports = ScriptedBackend.supports | {"tools", "tool_choice", "parallel_tool_calls"}

    def __init__(self, alias: str, *, tool_calls: Sequence[Mapping[str, Any]], **options: Any) -> None:
        super().__init__(alias, **options)
        self._calls = [ScriptedCall(**call) for call in tool_calls]

    async def stream(self, request: GenerationRequest) -> ScriptedStream:
        stream = await super().stream(request)
        if request.tools and request.tool_choice != "none":
            stream.tool_calls = [piece for index, call in enumerate(self._calls) for piece in call.pieces(index)]
        return stream
