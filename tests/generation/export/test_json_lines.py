from __future__ import annotations

import datetime
import json

import pytest

from generation.export.json_lines import json_line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"text": "चाय\n\x00"}, '{"text": "चाय\\n\\u0000"}\n'),
        ({"text": "a\u2028b\u2029c\x85d"}, '{"text": "a\\u2028b\\u2029c\\u0085d"}\n'),
        ({"text": "é\ud83d"}, '{"text": "\\u00e9\\ud83d"}\n'),
        ({"at": datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)}, '{"at": "2026-03-01T00:00:00+00:00"}\n'),
    ],
    ids=["script", "line ends", "half a pair", "time"],
)
def test_a_value_is_one_exact_line(value: dict[str, object], line: str) -> None:
    written = json_line(value).decode()
    assert written == line
    assert len(written.splitlines()) == 1
    if "text" in value:
        assert json.loads(written) == value


def test_a_value_is_refused_when_json_has_no_form_for_it() -> None:
    with pytest.raises(TypeError, match="set has no form in JSON"):
        json_line({"value": {1}})
