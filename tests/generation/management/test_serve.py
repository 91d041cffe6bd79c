"""`manage.py serve`, as a real process: what it prints, that it serves, and how it fails."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from generation.management.commands.serve import bind, in_url
from tests.live_server import ROOT, free_port, wait_until

TRACEBACK = "Traceback (most recent call last)"


class Serving:
    """A `manage.py serve` with its own var folder; scripted backends, and any folder for a model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.output = folder / "output.log"
        model = folder / "model"
        model.mkdir()
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (model / name).write_text("{}")
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DATABASE_URL": f"sqlite:///{folder / 'serve.sqlite3'}",
            "STREAMSITE_VAR": str(folder / "var"),
            "STREAMSITE_MODEL": str(model),
            "STREAMSITE_DEBUG": "1",
            "PORT": str(self.port),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=ROOT,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self.process

    def until_healthy(self) -> str:
        """What was printed until the server answered."""
        process = self.process
        assert process is not None

        def healthy() -> bool:
            assert process.poll() is None, self.said
            return "Ctrl-C" in self.said and self.get("healthz") == {"status": "ok"}

        wait_until(healthy, timeout_s=60, what="serve to answer")
        return self.said

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)

    def get(self, path: str) -> object:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=10) as response:
                return json.load(response)
        except OSError:
            return None

    @property
    def said(self) -> str:
        return self.output.read_text()


@pytest.fixture
def serving(tmp_path: Path):
    serving = Serving(tmp_path)
    yield serving
    if serving.process is not None and serving.process.poll() is None:
        serving.process.kill()
        serving.process.wait(10)


@pytest.mark.servers
def test_address_password_and_curl_are_printed_when_it_starts_the_first_time_only(serving: Serving) -> None:
    serving.start()
    first = serving.until_healthy()
    assert f"  Chat   http://127.0.0.1:{serving.port}/\n" in first
    assert len(re.findall(r"^Admin account: user admin, password \S{16}  \(shown only this once\)$", first, re.M)) == 1
    assert serving.stop() == 0
    assert serving.said.endswith("\nStopped.\n")
    assert TRACEBACK not in serving.said

    serving.start()
    second = serving.until_healthy()
    assert "Admin account" not in second
    assert serving.stop(signal.SIGTERM) == 0
    assert TRACEBACK not in serving.said


@pytest.mark.servers
def test_printed_curl_streams_an_answer_when_pasted(serving: Serving) -> None:
    serving.start()
    command = re.search(r"^curl -N .*\n .*$", serving.until_healthy(), re.M)
    assert command is not None
    ran = subprocess.run(["bash", "-c", command[0]], capture_output=True, text=True, timeout=30, check=True)
    frames = [line.removeprefix("data: ") for line in ran.stdout.splitlines() if line.startswith("data: ")]
    contents = [json.loads(frame)["choices"][0]["delta"].get("content", "") for frame in frames[:-1]]
    assert "".join(contents) == "Hello, world!"
    assert frames[-1] == "[DONE]"
    assert serving.stop() == 0


@pytest.mark.servers
def test_port_is_named_with_another_one_when_it_is_taken(serving: Serving) -> None:
    with socket.create_server(("127.0.0.1", serving.port)):
        assert serving.start().wait(60) == 1
    assert f"Port {serving.port} is taken" in serving.said
    assert f"  PORT={serving.port + 1} make run\n" in serving.said
    assert TRACEBACK not in serving.said


@pytest.mark.servers
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param({"PORT": "http"}, "PORT is 'http'; it must be a number from 1 to 65535.", id="port"),
        pytest.param({"HOST": "no.such.host.invalid"}, "HOST is 'no.such.host.invalid'", id="host"),
        pytest.param({"HOST": "192.0.2.1"}, "Cannot listen on 192.0.2.1:", id="address-elsewhere"),
        pytest.param({"STREAMSITE_MODEL": "/no/such/model"}, "/no/such/model", id="model"),
        pytest.param(
            {"DATABASE_URL": "postgres://nobody@127.0.0.1:9/none?connect_timeout=1"},
            "The database does not answer",
            id="database",
        ),
    ],
)
def test_message_says_what_is_wrong_when_it_cannot_start(serving: Serving, environment, said: str) -> None:
    assert serving.start(**environment).wait(60) == 1
    assert said in serving.said
    assert TRACEBACK not in serving.said


@pytest.mark.servers
def test_warning_is_plain_when_debug_meets_the_outside(serving: Serving) -> None:
    serving.start(HOST="0.0.0.0", STREAMSITE_ALLOWED_HOSTS="127.0.0.1")
    said = serving.until_healthy()
    assert "HOST=0.0.0.0 opens this server to other machines" in said
    assert f"  Chat   http://127.0.0.1:{serving.port}/\n" in said
    assert serving.stop() == 0


@pytest.mark.parametrize("port", [65536, -1])
def test_port_option_is_refused_when_it_is_none(port: int) -> None:
    with pytest.raises(CommandError, match="it must be a number from 1 to 65535"):
        bind("127.0.0.1", port)


def test_nobody_can_connect_when_the_port_is_only_claimed() -> None:
    with bind("127.0.0.1", free_port()) as listener, socket.socket() as client:
        assert client.connect_ex(listener.getsockname()) == errno.ECONNREFUSED


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("[::1]", "[::1]"),
        ("2001:db8::1", "[2001:db8::1]"),
    ],
)
def test_address_opens_in_a_browser(host: str, shown: str) -> None:
    assert in_url(host) == shown
