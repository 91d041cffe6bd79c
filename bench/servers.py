"""The servers that `bench.engines` compares: each a process of its own on a free port, all with the same model.

The peers live in an environment of their own, ``var/bench-env``, made at the first run with the versions that
Streamsite pins. Whatever is not installed there is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamsite.env import BASE_DIR

ENVIRONMENT = BASE_DIR / "var" / "bench-env"
OURS_OPENVINO = "streamsite, openvino"
OURS = "streamsite"
#: Room for 16 streams of 2,048 tokens: by itself `transformers serve` takes most of the memory there is.
PEER_MEMORY = ("--cb-block-size", "32", "--cb-num-blocks", "1024", "--cb-max-batch-tokens", "512")
START_TIMEOUT_S = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server. ``most_streams`` is what it is asked for at once: serial ones take minutes for more."""

    name: str
    base_url: str
    model: str
    pid: int
    most_streams: int = 16

    @property
    def resident_bytes(self) -> int:
        """Memory that the process holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(match[1]) * 1024 if match else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a server is started; ``{port}`` in a command stands for its port."""

    name: str
    command: list[str]
    model: str
    environment: dict[str, str]
    health_path: str = "/v1/models"
    most_streams: int = 16


def make_environment() -> None:
    """Install the peers where they are not yet."""
    if not (ENVIRONMENT / "bin" / "transformers").exists():
        print(f"Installing the peers into {ENVIRONMENT} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        pins = re.findall(r"^(torch|transformers)==(\S+)", (BASE_DIR / "requirements.txt").read_text(), re.MULTILINE)
        versions = dict(pins)
        subprocess.run(
            [
                *[str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet"],
                *[f"torch=={versions['torch']}", f"transformers[serving]=={versions['transformers']}"],
            ],
            check=True,
        )


@contextlib.contextmanager
def running(launches: list[Launch]) -> Iterator[list[Server]]:
    """Start servers and wait until each answers; stop them all at the end, however it comes."""
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".log", delete=False))
        started = []
        for launch in launches:
            port = _free_port()
            command = [part.format(port=port) for part in launch.command]
            process = subprocess.Popen(
                command, env={**os.environ, **launch.environment}, cwd=BASE_DIR, stdout=log, stderr=log
            )
            stack.callback(_stop, process)
            base_url = f"http://127.0.0.1:{port}"
            started.append((launch, process, base_url))
        for launch, process, base_url in started:
            _wait_until_up(f"{base_url}{launch.health_path}", process, launch.name, log.name)
        yield [
            Server(
                name=launch.name,
                base_url=base_url,
                model=launch.model,
                pid=process.pid,
                most_streams=launch.most_streams,
            )
            for launch, process, base_url in started
        ]


def launches(folder: Path, var: Path, names: list[str], threads: int) -> list[Launch]:
    """The servers asked for that are installed here; ``var`` is an empty folder for our records."""
    for engine in ("torch", "openvino"):
        (var / engine).mkdir()
        (var / engine / "models").symlink_to(BASE_DIR / "var" / "models")
    ours = {
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "STREAMSITE_DEBUG": "1",
        "STREAMSITE_VAR": str(var / "torch"),
        "STREAMSITE_MODEL": os.environ.get("STREAMSITE_MODEL", ""),
    }
    peer = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
    serve = [str(ENVIRONMENT / "bin" / "transformers"), "serve", str(folder), "--host", "127.0.0.1", "--port", "{port}"]
    known = [
        Launch(
            name=OURS,
            command=[sys.executable, "manage.py", "serve", "--host", "127.0.0.1", "--port", "{port}"],
            model="default",
            environment=ours,
        ),
        Launch(
            name="transformers serve --continuous-batching",
            command=[*serve, "--continuous-batching", *PEER_MEMORY],
            model=str(folder),
            environment=peer,
            health_path="/health",
        ),
        Launch(
            name="transformers serve",
            command=serve,
            model=str(folder),
            environment=peer,
            health_path="/health",
            most_streams=4,
        ),
    ]
    if has_module(Path(sys.executable), "openvino_genai"):
        known.append(
            Launch(
                name=OURS_OPENVINO,
                command=known[0].command,
                model="default",
                environment={**ours, "STREAMSITE_VAR": str(var / "openvino"), "STREAMSITE_ENGINE": "openvino"},
            )
        )
    python = ENVIRONMENT / "bin" / "python"
    gguf = os.environ.get("BENCH_GGUF", "")
    if gguf and has_module(python, "llama_cpp"):
        command = [str(python), "-m", "llama_cpp.server", "--model", gguf, "--host", "127.0.0.1", "--port", "{port}"]
        known.append(Launch(name="llama_cpp.server", command=command, model=gguf, environment=peer, most_streams=4))
    if has_module(python, "vllm"):
        command = [str(ENVIRONMENT / "bin" / "vllm"), "serve", str(folder), "--host", "127.0.0.1", "--port", "{port}"]
        known.append(
            Launch(name="vllm", command=[*command, "--max-model-len", "2048"], model=str(folder), environment=peer)
        )
    return [launch for launch in known if not names or launch.name in names]


def has_module(python: Path, module: str) -> bool:
    """Whether that Python can import a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return python.exists() and subprocess.run([str(python), "-c", code], check=False).returncode == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_up(url: str, process: subprocess.Popen[bytes], name: str, log: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.5)
    how = f"did not start within {START_TIMEOUT_S} s" if process.poll() is None else "ended at its start"
    raise SystemExit(f"{name} {how}; its output is in {log}.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
