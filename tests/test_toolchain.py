"""Finding the tools of the page's checks, among programs made for the test."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.toolchain import MissingToolError, ensure_chromium, find_chromium, find_node, installed, output_of


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "found"),
    [("v24.19.0", True), ("v20.0.0", True), ("v18.20.4", False), ("what?", False)],
)
def test_node_is_found_when_it_is_new_enough(tmp_path: Path, version: str, found: bool) -> None:
    node = program(tmp_path, "node", f"echo {version}")
    program(tmp_path, "npm", "echo 11")
    assert find_node(str(tmp_path)) == (str(node) if found else None)


def test_node_is_not_enough_when_npm_is_missing(tmp_path: Path) -> None:
    program(tmp_path, "node", "echo v24.19.0")
    assert find_node(str(tmp_path)) is None


def test_chromium_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chromium = program(tmp_path, "my-chromium", "echo Chromium 156")
    monkeypatch.setenv("STREAMSITE_CHROMIUM", str(chromium))
    assert find_chromium() == str(chromium)


def test_chromium_is_searched_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "chromium", "echo 'is a snap, install it' >&2; exit 1")
    chrome = program(tmp_path, "google-chrome", "echo Google Chrome 156")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium() == str(chrome)


def test_message_names_the_variable_when_the_named_chromium_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSITE_CHROMIUM", "/no/such/chromium")
    with pytest.raises(MissingToolError, match=r"^STREAMSITE_CHROMIUM is /no/such/chromium, which does not start"):
        ensure_chromium()


def test_output_is_empty_when_a_program_fails(tmp_path: Path) -> None:
    assert output_of(str(program(tmp_path, "broken", "echo something; exit 3")), "--version") == ""
    assert output_of(str(tmp_path / "absent"), "--version") == ""


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ({}, True),
        ({"pytest": version("pytest")}, True),
        ({"pytest": "0.1"}, False),
        ({"pytest": version("pytest"), "no-such-package": "1"}, False),
    ],
    ids=["nothing", "as pinned", "another version", "absent"],
)
def test_packages_are_installed_when_each_has_its_version(pins: dict[str, str], expected: bool) -> None:
    assert installed(pins) is expected
