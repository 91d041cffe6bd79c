from __future__ import annotations

import pytest

from generation.admin.window import window


@pytest.mark.parametrize(
    ("wanted", "total", "expected"),
    [
        pytest.param(None, 0, (1, 0, None, None), id="nothing"),
        pytest.param(None, 10, (1, 10, None, None), id="one full page"),
        pytest.param(None, 11, (1, 10, None, 11), id="one row more"),
        pytest.param("11", 25, (11, 20, 1, 21), id="in the middle"),
        pytest.param("21", 25, (21, 25, 11, None), id="last page"),
        pytest.param("5", 25, (5, 14, 1, 15), id="between pages"),
        pytest.param("999", 25, (25, 25, 15, None), id="beyond the end"),
        pytest.param("0", 25, (1, 10, None, 11), id="zero"),
        pytest.param("-3", 25, (1, 10, None, 11), id="negative"),
        pytest.param("x", 25, (1, 10, None, 11), id="no number"),
        pytest.param("²", 25, (1, 10, None, 11), id="a digit that int refuses"),
        pytest.param("9" * 5000, 25, (1, 10, None, 11), id="too many digits for int"),
    ],
)
def test_the_window_is_inside_the_list_when_asked_for(
    wanted: str | None, total: int, expected: tuple[int, int, int | None, int | None]
) -> None:
    shown = window(wanted, total=total, size=10)
    assert (shown.first, shown.last, shown.previous, shown.next) == expected


def test_the_slice_holds_the_rows_when_applied() -> None:
    assert list(range(1, 26))[window("11", total=25, size=10).slice] == [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
