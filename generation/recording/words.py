"""What of a record is words, and what is left without them: times, sizes, figures, reasons, digests.

Used when nothing but figures is to be stored (STREAMSITE_STORE_TEXT=0), and when the text of old streams is deleted.
Pure: JSON values in, JSON values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: The columns of a stream that hold words or the ids of words, and what they are without.
NO_WORDS: Mapping[str, Any] = MappingProxyType(
    {"messages": [], "text": "", "stop_string": None, "tool_calls": None, "token_ids": None, "error": ""}
)


def parameters_without_words(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers among the parameters; stop strings, schemas, tools, names and metadata are words."""
    return {name: value for name, value in parameters.items() if isinstance(value, int | float)}


def error_without_words(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An error object without its message, which may quote the prompt; its kind stays."""
    return None if body is None else {"error": {**body["error"], "message": ""}}
