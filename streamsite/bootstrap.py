"""Make ``.venv`` ready: the right Python, the pinned requirements, nothing downloaded twice.

In: the name of a requirements file, run by any Python from 3.6 on (the syntax here is 3.6's, so that an old one gets
a sentence and not a SyntaxError). Out: exit status 0 and a complete ``.venv``, or a message that says what to do.
An environment that was interrupted or moved, or whose Python is gone, is built again.
"""

import contextlib
import errno
import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED_PYTHON = (3, 11)
#: 1.7 GB of packages, as much again while pip unpacks them, and the model.
NEEDED_DISK_GB = 4
DISK_FULL = (
    f"The disk became full. Free about {NEEDED_DISK_GB} GB here and in the temporary folder (or point TMPDIR\n"
    "elsewhere), then run the same command again."
)
#: How pip announces that it begins to change the environment.
UNPACKING = "Installing collected packages"
#: Prints the pins that are not installed; fails in an environment of another Python or without pip.
PROBE = """
import importlib.metadata, pip, sys
assert sys.version_info[:2] == (3, 11)
for pin in sys.argv[1:]:
    name, _, version = pin.partition("==")
    try:
        found = importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found != version:
        print(pin)
"""


class SetupError(Exception):
    """What went wrong and what to do about it, as a person should read it."""


def main(requirements: str = "requirements.txt") -> int:
    """Bring ``.venv`` up to date with this requirements file. Returns the exit status."""
    try:
        check_python(sys.version_info[:2])
        with only_one_at_a_time(ROOT / "var"):
            Environment(ROOT / ".venv", log=ROOT / "var" / "setup.log").install(ROOT / requirements)
    except SetupError as exc:
        print(f"\n{exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def check_python(found: "tuple[int, ...]") -> None:
    """Raise SetupError unless this is the Python that the requirements are pinned for."""
    if found == NEEDED_PYTHON:
        return
    raise SetupError(
        f"Python 3.11 is needed, found {found[0]}.{found[1]} ({sys.executable}).\n"
        "Install it (Debian, Ubuntu: apt install python3.11 python3.11-venv; macOS: brew install python@3.11;\n"
        "anywhere: pyenv install 3.11) and run the same command again.\n"
        "If it is installed but not found, name it: make run PYTHON=/path/to/python3.11"
    )


@contextlib.contextmanager
def only_one_at_a_time(folder: Path) -> "Iterator[None]":
    """Wait for another set-up of this checkout to end, so that two never write one environment."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "setup.lock").open("w")
    except OSError as exc:
        raise SetupError(cannot_write(folder, exc)) from exc
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Environment:
    """A virtual environment, with a note inside that says where it was made, or that an installation broke off."""

    def __init__(self, folder: Path, *, log: Path) -> None:
        self.folder = folder
        self.log = log
        self.python = folder / "bin" / "python"
        self.note = folder / "streamsite-note"

    def install(self, requirements: Path) -> None:
        """Install what this file and those it includes pin, unless every pinned version is there."""
        missing = self.missing(pins_of(requirements))
        if missing == "":
            return
        if missing is None:
            check_disk(self.folder.parent)
        try:
            if missing is None:
                self._create()
            # A pip that fails before it unpacks has changed nothing, so only then is the environment in doubt.
            run_pip(self.python, requirements, log=self.log, on_unpack=lambda: self.note.write_text("unpacking"))
            self.note.write_text(str(self.folder))
        except OSError as exc:
            raise SetupError(cannot_write(self.folder, exc)) from exc

    def missing(self, pins: "list[str]") -> "str | None":
        """Return the pins that are not installed, one a line; None when the environment is to be built (again)."""
        try:
            # In another place its scripts would point to where it was.
            if self.note.read_text() != str(self.folder):
                return None
        except FileNotFoundError:
            pass  # made by hand, or not there at all
        except (OSError, ValueError):
            return None
        try:
            probe = subprocess.run([str(self.python), "-c", PROBE, *pins], capture_output=True, text=True)
        except OSError:
            return None
        return probe.stdout if probe.returncode == 0 else None

    def _create(self) -> None:
        print(f"Making the virtual environment {self.folder.name}", flush=True)
        command = [sys.executable, "-m", "venv", "--clear", str(self.folder)]
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            raise SetupError(
                f"Cannot make the virtual environment {self.folder}:\n{made.stdout.strip()}\n"
                "On Debian and Ubuntu install the missing part (apt install python3.11-venv); elsewhere see that the\n"
                "folder is writable and its disk is not full."
            )


def pins_of(requirements: Path) -> "list[str]":
    """``name==version`` of each line of a requirements file and of the files it includes."""
    text = requirements.read_text(encoding="utf-8")
    pins = [f"{name}=={version}" for name, version in re.findall(r"^([\w.-]+)\S*==(\S+)", text, flags=re.MULTILINE)]
    for included in re.findall(r"^-r +(\S+)", text, flags=re.MULTILINE):
        pins += pins_of(requirements.parent / included)
    return pins


def check_disk(folder: Path) -> None:
    """Raise SetupError when the packages and the model cannot fit."""
    free_gb = shutil.disk_usage(str(folder)).free / 1e9
    if free_gb < NEEDED_DISK_GB:
        raise SetupError(
            f"Not enough disk space: {free_gb:.1f} GB free in {folder}, {NEEDED_DISK_GB} GB are needed for the\n"
            "Python packages and the model. Free some, or move this folder to a larger disk, and run the same\n"
            "command again."
        )


def run_pip(python: Path, requirements: Path, *, log: Path, on_unpack: "Callable[[], object]") -> None:
    """Install a requirements file; a few lines to the terminal, everything to the log."""
    print(f"Installing {requirements.name} (the first time takes some minutes)", flush=True)
    command = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["--requirement", str(requirements)]
    output: list[str] = []
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("w", encoding="utf-8"))
        pip = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
        )
        # However the loop ends, pip's output is closed then, and its end awaited.
        stack.enter_context(pip)
        for line in pip.stdout or ():
            output.append(line)
            file.write(line)
            if line.startswith(UNPACKING):
                on_unpack()
            show_progress(line)
    if pip.returncode != 0:
        raise SetupError(f"{explain_pip(''.join(output))}\nAll that pip said is in {log}.")


def show_progress(line: str) -> None:
    """Print what a person waits for: large downloads, retries, and the unpacking at the end."""
    download = re.match(r"\s*Downloading (\S+?)-(\d\S*?)-\S+ \((.+ [MG]B)\)", line)
    if download:
        print(f"  downloading {download[1]} {download[2]} ({download[3]})", flush=True)
    elif line.startswith(UNPACKING):
        print("  unpacking", flush=True)
    elif "Retrying (" in line:
        print("  no answer from the package index, trying again", flush=True)


def explain_pip(output: str) -> str:
    """What pip's failure means and what to do about it."""
    if "No space left on device" in output:
        return DISK_FULL
    if re.search(r"Retrying \(|NewConnectionError|ConnectTimeout|name resolution|ProxyError|SSLError", output):
        return (
            "The package index cannot be reached. See that this machine is online (proxy: HTTPS_PROXY, mirror:\n"
            "PIP_INDEX_URL), then run the same command again."
        )
    errors = [line.strip() for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()[-3:]
    return "pip failed:\n  " + "\n  ".join(errors[-3:])


def cannot_write(path: Path, exc: OSError) -> str:
    """The message for a folder that refuses files."""
    if exc.errno == errno.ENOSPC:
        return DISK_FULL
    return f"Cannot write {path}: {exc.strerror}. See that the folder is yours."


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
