from __future__ import annotations

import pytest

from generation.admin.durations import seconds


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (0.0, "0 ms"),
        (0.00004, "0.04 ms"),
        (0.0034, "3.4 ms"),
        (0.0996, "99.6 ms"),
        (0.45678, "457 ms"),
        (0.9999, "1000 ms"),
        (1.0, "1.00 s"),
        (61.239, "61.24 s"),
    ],
)
def test_a_duration_has_its_unit_when_written(value: float | None, expected: str) -> None:
    assert seconds(value) == expected
