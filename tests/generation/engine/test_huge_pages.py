from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest

from generation.engine.huge_pages import HUGE_PAGE, huge_pages_within, use_huge_pages

MB = 1 << 20


@pytest.mark.parametrize(
    ("areas", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(2 * MB, 2 * MB)], [(2 * MB, 4 * MB)], id="one page"),
        pytest.param([(3 * MB, 2 * MB)], [], id="across a border, no whole page"),
        pytest.param([(3 * MB, 6 * MB)], [(4 * MB, 8 * MB)], id="whole pages within"),
        pytest.param([(3 * MB, MB), (2 * MB, MB)], [(2 * MB, 4 * MB)], id="neighbours in any order"),
        pytest.param([(2 * MB, MB - 64), (3 * MB, MB)], [(2 * MB, 4 * MB)], id="an allocator's gap"),
        pytest.param([(2 * MB, MB), (4 * MB, 2 * MB)], [(4 * MB, 6 * MB)], id="a gap of a megabyte"),
        pytest.param([(2 * MB, 4 * MB), (3 * MB, MB)], [(2 * MB, 6 * MB)], id="one within another"),
    ],
)
def test_whole_pages_are_found_when(areas: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert list(huge_pages_within(areas)) == expected


def test_memory_keeps_its_contents_when_moved() -> None:
    memory = mmap.mmap(-1, 4 * HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes(range(256)) * (len(memory) // 256)
    view = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(view)
    use_huge_pages([(address, len(memory))])
    assert memory[:] == bytes(range(256)) * (len(memory) // 256)
    flags = _flags_of(address)
    # "hg" is the mark of advised memory; kernels built without huge pages have none.
    assert "hg" in flags or not Path("/sys/kernel/mm/transparent_hugepage").exists()
    del view


def test_nothing_happens_when_the_address_is_not_ours() -> None:
    use_huge_pages([(HUGE_PAGE, HUGE_PAGE)])


def _flags_of(address: int) -> list[str]:
    """The kernel's flags of the mapping that an address is in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside = start <= address < end
        elif inside and first == "VmFlags:":
            return line.split()[1:]
    return []
