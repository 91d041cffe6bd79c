"""Records of streams as lines of CSV (RFC 4180, UTF-8) that a spreadsheet shows and never runs. Pure.

A text that a spreadsheet could take for a formula gets an apostrophe in front; numbers stay numbers. Lists and objects
become JSON, holds a column for each cause and figure, reviews their labels and scores. JSON lines are the exact form.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from generation.export.records import COLUMNS, CONTENT
from generation.output import HoldCause

_NAMES = (
    "id", "wire_id", "choice", "endpoint", "source", "user", "api_key", "conversation", "client_stream_id",
    *(name for name in COLUMNS if name != "holds"),
)  # fmt: skip
_HOLD_FIGURES = ("count", "size", "total_s", "longest_s")
#: Too long for a cell, and nothing that one reads in a table.
_NOT_IN_CELLS = ("token_ids", "token_offsets")

# What Excel, LibreOffice and Google Sheets start a formula with, full width and small forms too, also behind blanks and
# characters that are not seen; and the characters that may move the rest into a cell of its own.
_FORMULA = re.compile("[\\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠﹦﹢﹣﹫]|[\t\r\n]")


def csv_header(*, content: bool) -> bytes:
    """The names of the columns."""
    return _line(_cells({}, content=content))


def csv_line(record: Mapping[str, Any], *, content: bool) -> bytes:
    """The line of one stream's record."""
    return _line(_cell(value) for value in _cells(record, content=content).values())


def harmless(text: str) -> str:
    """The text as a cell that no spreadsheet runs."""
    return f"'{text}" if _FORMULA.match(text) else text


def _cells(record: Mapping[str, Any], *, content: bool) -> dict[str, Any]:
    """Every column in order with its value; an empty record gives the names."""
    holds = record.get("holds") or {}
    reviews = record.get("reviews", ())
    return {
        **{name: record.get(name) for name in _NAMES},
        **{
            f"hold_{cause.value}_{figure}": holds.get(cause.value, {}).get(figure)
            for cause in HoldCause
            for figure in _HOLD_FIGURES
        },
        "labels": " ".join(review["label"] for review in reviews if review["label"]),
        "scores": " ".join(str(review["score"]) for review in reviews if review["score"] is not None),
        **({name: record.get(name) for name in CONTENT if name not in _NOT_IN_CELLS} if content else {}),
    }


def _cell(value: Any) -> str | int | float | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    return harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _line(cells: Iterable[object]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(cells)
    # Half of a surrogate pair has no place in UTF-8.
    return line.getvalue().encode(errors="backslashreplace")
