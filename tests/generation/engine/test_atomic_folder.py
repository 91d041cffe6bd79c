from __future__ import annotations

import threading
from pathlib import Path

import pytest

from generation.engine.atomic_folder import folder_lock, new_folder

WAIT_S = 20


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_folder_appears_whole_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with new_folder(target) as folder:
        (folder / "weights").write_bytes(b"1")
        (folder / "sub").mkdir()
        (folder / "sub" / "part").write_bytes(b"2")
        assert not target.exists()
    assert names(target) == ["sub", "weights"]
    assert names(tmp_path) == ["model"]
    assert target.stat().st_mode & 0o777 == 0o755


def test_old_folder_is_replaced_when_there_is_one(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_bytes(b"1")
    with new_folder(target) as folder:
        (folder / "new").write_bytes(b"2")
        assert names(target) == ["old"]
    assert names(target) == ["new"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("had_old", [True, False], ids=["old there", "no old"])
def test_nothing_changes_when_the_block_fails(tmp_path: Path, error: type[BaseException], had_old: bool) -> None:
    target = tmp_path / "model"
    if had_old:
        target.mkdir()

    def half_done() -> None:
        with new_folder(target) as folder:
            (folder / "half").write_bytes(b"1")
            raise error

    with pytest.raises(error):
        half_done()
    assert names(tmp_path) == (["model"] if had_old else [])
    assert not (target / "half").exists()


def test_leftovers_are_removed_when_a_new_folder_is_begun(tmp_path: Path) -> None:
    # What a process killed in the middle leaves behind.
    (tmp_path / ".model-abc.partial").mkdir()
    (tmp_path / ".model-abc.partial" / "half").write_bytes(b"1")
    (tmp_path / "other").mkdir()
    with new_folder(tmp_path / "model"):
        pass
    assert names(tmp_path) == ["model", "other"]


def test_second_holder_waits_and_says_so_when_the_lock_is_held(tmp_path: Path) -> None:
    waiting, entered, order = threading.Event(), threading.Event(), []

    def second() -> None:
        with folder_lock(tmp_path / "models", on_wait=waiting.set):
            order.append("second")
            entered.set()

    thread = threading.Thread(target=second)
    with folder_lock(tmp_path / "models", on_wait=lambda: order.append("must not wait")):
        thread.start()
        assert waiting.wait(WAIT_S)
        order.append("first")
    assert entered.wait(WAIT_S)
    thread.join()
    assert order == ["first", "second"]
