from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from generation.garbage import settle


class Node:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_is_alive_is_left_out_of_later_searches() -> None:
    kept = Node()
    settle()
    assert kept not in gc.get_objects()
    assert gc.get_freeze_count() > 10_000


def test_what_was_alive_at_the_last_call_is_freed_when_it_is_garbage_at_the_next() -> None:
    model = Node()
    settle()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is not None
    settle()
    assert gone() is None
