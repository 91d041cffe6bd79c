"""A real server in a process of its own: uvicorn or daphne, with its own database and var folder.

Used by the socket, contract and browser tests. The database is migrated here, and readable with `rows`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg

ROOT = Path(__file__).resolve().parent.parent
ServerName = Literal["uvicorn", "daphne"]


@dataclass(kw_only=True)
class LiveServer:
    """One running server; `base_url` answers, `rows` reads its database."""

    server: ServerName
    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    environment: dict[str, str] = field(repr=False)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "live.sqlite3"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON body of a GET."""
        try:
            with urllib.request.urlopen(self.base_url + path, timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as exc:
            return exc.code, json.load(exc)

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Rows of the server's database, read beside it."""
        address = self.environment["DATABASE_URL"]
        if address.startswith("postgres"):
            with psycopg.connect(address, row_factory=psycopg.rows.dict_row) as connection:
                return connection.execute(sql.replace("?", "%s"), parameters).fetchall()
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, parameters)]

    def execute(self, sql: str, *parameters: Any) -> None:
        """Change the server's database behind its back."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection, connection:
            connection.execute(sql, parameters)

    def stream(self, wire_id: str, *, timeout_s: float = 10) -> dict[str, Any]:
        """The row of a stream once it has ended."""
        rows: list[dict[str, Any]] = []

        def ended() -> bool:
            rows[:] = self.rows("SELECT * FROM generation_stream WHERE wire_id = ? AND state != 'running'", wire_id)
            return bool(rows)

        wait_until(ended, timeout_s=timeout_s, what=f"stream {wire_id} to end")
        return rows[0]

    def manage(self, *arguments: str) -> str:
        """Run a management command against this server's database and settings."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout

    @functools.cached_property
    def api_key(self) -> str:
        """A key of a user made for it; clients that insist on a key must send a right one."""
        make = (
            "from django.contrib.auth.models import User; from generation.access import create_key; "
            "print(create_key(User.objects.create(username='client'), 'tests', requests_per_minute=0)[1])"
        )
        return self.manage("shell", "--verbosity", "0", "-c", make).strip()

    def terminate(self, number: signal.Signals = signal.SIGTERM, *, timeout_s: float = 15) -> int:
        """Send a signal and wait for the end; returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout_s)


@contextlib.contextmanager
def live_server(
    folder: Path,
    *,
    server: ServerName = "uvicorn",
    settings: str = "tests.settings",
    port: int | None = None,
    **environment: str,
) -> Iterator[LiveServer]:
    """Start a server on a free port of 127.0.0.1, and end it afterwards. ``environment`` adds variables."""
    port = port or free_port()
    variables = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": settings,
        "STREAMSITE_DEBUG": "1",
        "STREAMSITE_VAR": str(folder),
        "DATABASE_URL": f"sqlite:///{folder / 'live.sqlite3'}",
        "PYTHONUNBUFFERED": "1",
        **environment,
    }
    started = LiveServer(server=server, folder=folder, port=port, process=None, environment=variables)  # type: ignore[arg-type]
    if not started.database.exists() or "DATABASE_URL" in environment:
        started.manage("migrate", "--verbosity", "0")
    with (folder / "server.log").open("ab") as log:
        started.process = subprocess.Popen(
            _command(server, port), cwd=ROOT, env=variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        _wait_for(started)
        yield started
    finally:
        if started.process.poll() is None:
            started.process.terminate()
            try:
                started.process.wait(15)
            except subprocess.TimeoutExpired:
                started.process.kill()
                started.process.wait(5)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 10, what: str = "the condition") -> None:
    """Poll until true; for what another process does, of which no event can be awaited."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, f"waited {timeout_s} s in vain for {what}"
        time.sleep(0.02)


def _command(server: ServerName, port: int) -> list[str]:
    if server == "uvicorn":
        options = "--loop uvloop --http httptools --timeout-graceful-shutdown 2 --lifespan on --log-level warning"
        return [
            sys.executable, "-m", "uvicorn", "streamsite.asgi:application",
            "--host", "127.0.0.1", "--port", str(port), *options.split(),
        ]  # fmt: skip
    endpoint = f"tcp:port={port}:interface=127.0.0.1:backlog=2048"
    return [sys.executable, "-m", "daphne", "-e", endpoint, "-v", "0", "streamsite.asgi:application"]


def _wait_for(server: LiveServer) -> None:
    def answers() -> bool:
        assert server.process.poll() is None, f"{server.server} ended at once:\n{server.log}"
        try:
            return server.get("/healthz")[0] == 200
        except (OSError, ValueError):
            return False

    wait_until(answers, timeout_s=30, what=f"{server.server} to answer")
