"""Tool calls on the wire: their pieces in the deltas of a stream, and the whole calls joined from them.

In: `ToolCallDelta`s in order. Out: OpenAI's JSON. Arguments stay the text that the model wrote; they are never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from generation.output import ToolCallDelta


def tool_call_piece(piece: ToolCallDelta) -> dict[str, Any]:
    """One entry of ``delta.tool_calls``; id, type and name are there in a call's first piece only."""
    function: dict[str, str] = {} if piece.name is None else {"name": piece.name}
    head: dict[str, Any] = {"index": piece.index}
    if piece.id is not None:
        head |= {"id": piece.id, "type": "function"}
    return {**head, "function": {**function, "arguments": piece.arguments}}


class ToolCallJoiner:
    """Joins the pieces of tool calls, whose ``index`` says to which call each belongs."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, Any]] = {}

    def push(self, pieces: Iterable[ToolCallDelta]) -> None:
        for piece in pieces:
            call = self._calls.setdefault(
                piece.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] = piece.id or call["id"]
            call["function"]["name"] = piece.name or call["function"]["name"]
            call["function"]["arguments"] += piece.arguments

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls so far, as ``message.tool_calls`` has them; none is an empty list."""
        return [self._calls[index] for index in sorted(self._calls)]
