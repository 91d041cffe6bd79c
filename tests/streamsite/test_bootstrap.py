"""The set-up, run for real: in a checkout of its own, with a package made on the spot instead of the package index."""

from __future__ import annotations

import ast
import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from streamsite import bootstrap
from streamsite.bootstrap import Environment, SetupError, check_python, explain_pip, pins_of, show_progress
from tests.live_server import free_port

SOURCE = Path(bootstrap.__file__)


class Checkout:
    """A folder with the set-up script, one requirement, and the wheels that pip may find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "wheels"
        self.python = folder / ".venv" / "bin" / "python"
        self.note = folder / ".venv" / "streamsite-note"

    @classmethod
    def make(cls, folder: Path) -> Checkout:
        checkout = cls(folder)
        checkout.wheels.mkdir(parents=True)
        (folder / "streamsite").mkdir()
        shutil.copy(SOURCE, folder / "streamsite")
        checkout.require("1.0")
        return checkout

    def require(self, version: str) -> None:
        (self.folder / "requirements.txt").write_text(f"tea-leaves=={version}  # for the test\n")
        (self.folder / "requirements-dev.txt").write_text("-r requirements.txt\n\nsugar==2.0\n")

    def offer(self, name: str, version: str) -> None:
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.wheels / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    def set_up(self, requirements: str = "requirements.txt", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script with no package index but the folder of wheels."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        variables |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        return subprocess.run(
            [sys.executable, str(self.folder / "streamsite" / "bootstrap.py"), requirements],
            env={**variables, **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def version_of(self, module: str) -> str:
        command = [str(self.python), "-c", f"import {module}; print({module}.VERSION)"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a checkout that was set up once."""
    checkout = Checkout.make(tmp_path_factory.mktemp("made") / "checkout")
    checkout.offer("tea_leaves", "1.0")
    ran = checkout.set_up()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Making the virtual environment .venv\n")
    return checkout.folder


@pytest.fixture
def checkout(made: Path) -> Checkout:
    """A checkout whose ``.venv`` has tea-leaves 1.0. One environment serves all tests: a new one costs 5 s."""
    checkout = Checkout(made)
    checkout.offer("tea_leaves", "1.0")
    checkout.require("1.0")
    assert checkout.set_up().returncode == 0
    checkout.note.write_text(str(checkout.folder / ".venv"))
    return checkout


def test_nothing_is_said_or_downloaded_when_all_is_there(checkout: Checkout) -> None:
    ran = checkout.set_up(PIP_FIND_LINKS="", PIP_INDEX_URL="http://127.0.0.1:9/", PIP_NO_INDEX="0")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_only_the_new_version_is_installed_when_a_pin_changes(checkout: Checkout) -> None:
    checkout.offer("tea_leaves", "1.1")
    checkout.require("1.1")
    ran = checkout.set_up()
    assert ran.returncode == 0
    assert "Making the virtual environment" not in ran.stdout
    assert checkout.version_of("tea_leaves") == "1.1"


def test_included_files_count_when_the_dev_requirements_are_set_up(checkout: Checkout) -> None:
    checkout.offer("sugar", "2.0")
    assert checkout.set_up("requirements-dev.txt").returncode == 0
    assert checkout.version_of("sugar") == "2.0"
    assert checkout.set_up().stdout == ""


def test_environment_is_built_again_when_the_last_set_up_broke_off(checkout: Checkout) -> None:
    checkout.note.write_text("unpacking")
    ran = checkout.set_up()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Making the virtual environment .venv\n")
    assert checkout.version_of("tea_leaves") == "1.0"
    assert checkout.set_up().stdout == ""


@pytest.mark.parametrize(
    ("file", "content"),
    [
        pytest.param("streamsite-note", b"unpacking", id="interrupted"),
        pytest.param("streamsite-note", b"/elsewhere/.venv", id="moved"),
        pytest.param("streamsite-note", b"\xff", id="note-damaged"),
        pytest.param("bin/python", None, id="python-gone"),
        pytest.param("bin/python", b"#!/bin/false\n", id="python-broken"),
        pytest.param("lib/python3.11/site-packages/pip/__init__.py", b"import no_such_module", id="pip-broken"),
    ],
)
def test_environment_is_not_trusted_when_it_is_damaged(checkout: Checkout, file: str, content: bytes | None) -> None:
    environment = Environment(checkout.folder / ".venv", log=checkout.folder / "setup.log")
    assert environment.missing(["tea-leaves==1.0"]) == ""
    damaged, kept = checkout.folder / ".venv" / file, checkout.folder / "kept"
    damaged.rename(kept)
    try:
        if content is not None:
            damaged.write_bytes(content)
            damaged.chmod(0o755)
        assert environment.missing(["tea-leaves==1.0"]) is None
    finally:
        damaged.unlink(missing_ok=True)
        kept.rename(damaged)


def test_environment_made_by_hand_is_built_upon(checkout: Checkout) -> None:
    environment = Environment(checkout.folder / ".venv", log=checkout.folder / "setup.log")
    checkout.note.unlink()
    assert environment.missing(["tea-leaves==1.0", "sugar==9.9"]) == "sugar==9.9\n"


def test_message_says_what_to_do_when_the_index_cannot_be_reached(checkout: Checkout) -> None:
    checkout.require("9.9")
    closed = f"http://127.0.0.1:{free_port()}/"
    ran = checkout.set_up(PIP_NO_INDEX="0", PIP_INDEX_URL=closed, PIP_FIND_LINKS="", PIP_RETRIES="1", PIP_TIMEOUT="2")
    assert ran.returncode == 1
    assert "The package index cannot be reached." in ran.stderr
    assert str(checkout.folder / "var" / "setup.log") in ran.stderr
    assert "Traceback" not in ran.stderr


def test_message_names_the_package_when_it_does_not_exist(checkout: Checkout) -> None:
    checkout.require("9.9")
    ran = checkout.set_up()
    assert ran.returncode == 1
    assert "No matching distribution found for tea-leaves==9.9" in ran.stderr


def test_nothing_is_built_again_when_the_last_attempt_failed_before_unpacking(checkout: Checkout) -> None:
    checkout.require("9.9")
    assert checkout.set_up().returncode == 1
    checkout.require("1.0")
    ran = checkout.set_up()
    assert ran.returncode == 0
    assert "Making" not in ran.stdout


def test_message_names_the_folder_when_it_is_no_folder(tmp_path: Path) -> None:
    checkout = Checkout.make(tmp_path / "checkout")
    (checkout.folder / "var").write_text("a file where the folder should be")
    ran = checkout.set_up()
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"\nCannot write {checkout.folder / 'var'}: File exists. See that")


def test_second_set_up_waits_when_one_is_running(checkout: Checkout) -> None:
    with (checkout.folder / "var" / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, str(checkout.folder / "streamsite" / "bootstrap.py")], timeout=1, check=True
            )
    assert checkout.set_up().returncode == 0


@pytest.mark.parametrize("found", [(3, 6), (3, 10), (3, 12), (4, 0)], ids=lambda found: f"{found[0]}.{found[1]}")
def test_other_pythons_are_refused(found: tuple[int, int]) -> None:
    with pytest.raises(SetupError, match=rf"^Python 3\.11 is needed, found {found[0]}\.{found[1]} \("):
        check_python(found)


def test_python_3_11_is_accepted() -> None:
    check_python((3, 11))


def test_an_old_python_gets_as_far_as_the_message() -> None:
    """3.6 must parse the file, and evaluate its annotations, before it can print a sentence."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    annotations = [argument.annotation for node in functions for argument in [*node.args.args, *node.args.kwonlyargs]]
    annotations += [node.returns for node in functions]
    assert len(functions) > 10
    assert not [node for node in annotations if isinstance(node, (ast.Subscript, ast.BinOp))]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"]


@pytest.mark.parametrize(
    ("said", "explained"),
    [
        pytest.param(
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            "The disk became full.",
            id="disk-full",
        ),
        pytest.param(
            "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'NewConnectionError'\n"
            "ERROR: No matching distribution found for django==5.2.19\n",
            "The package index cannot be reached.",
            id="no-network",
        ),
        pytest.param("Collecting x\nERROR: a\nERROR: b\n", "pip failed:\n  ERROR: a\n  ERROR: b", id="pips-own-words"),
        pytest.param("Segmentation fault\n", "pip failed:\n  Segmentation fault", id="no-error-line"),
    ],
)
def test_pips_failure_is_explained(said: str, explained: str) -> None:
    assert explain_pip(said).startswith(explained)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "  Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl (190.5 MB)\n",
            "  downloading torch 2.13.0 (190.5 MB)\n",
        ),
        ("  Downloading idna-3.20-py3-none-any.whl (70 kB)\n", ""),
        ("Collecting idna==3.20\n", ""),
        ("Installing collected packages: idna\n", "  unpacking\n"),
        ("WARNING: Retrying (Retry(total=4))\n", "  no answer from the package index, trying again\n"),
    ],
    ids=["large", "small", "collecting", "unpacking", "retry"],
)
def test_progress_shows_what_people_wait_for(line: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_progress(line)
    assert capsys.readouterr().out == shown


def test_pins_are_read_with_extras_comments_and_includes(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("# why\ndjango==5.2.19  # pages\npsycopg[binary,pool]==3.3.9\n")
    (tmp_path / "dev.txt").write_text("-r base.txt\n\npytest==9.2.0\n")
    assert pins_of(tmp_path / "dev.txt") == ["pytest==9.2.0", "django==5.2.19", "psycopg==3.3.9"]
