"""Set up what is missing and serve: the model, the tables, an admin account, then uvicorn in this process.

What `make run` calls. Everything that a person can mend ends in a CommandError that says how. The port is claimed
first, so that a taken one costs no download. Production runs uvicorn itself (deploy/streamsite@.service).
"""

from __future__ import annotations

import errno
import secrets
import shutil
import signal
import socket
import sys
from typing import Any

import uvicorn
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from streamsite.env import is_loopback

#: The model's files while they are converted, and room for records.
NEEDED_DISK_GB = 1.0

CURL = """\
curl -N {address}v1/chat/completions -H 'Content-Type: application/json' \\
  -d '{{"model": "default", "stream": true, "messages": [{{"role": "user", "content": "What is tea?"}}]}}'"""


class Command(BaseCommand):
    help = "Set up what is missing (model, tables, admin account) and serve."
    # The tables may not exist yet.
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=None, help="Address to listen on (default: HOST, else 127.0.0.1).")
        parser.add_argument("--port", default=None, type=int, help="Port to listen on (default: PORT, else 8000).")

    def handle(self, *args: Any, host: str | None, port: int | None, **options: Any) -> None:
        host = host or settings.ENV.host
        # A terminal's Ctrl-C and a supervisor's SIGTERM both end with status 0, after uvicorn's graceful shutdown.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            listener = bind(host, settings.ENV.port if port is None else port)
            self._warn_when_open(host)
            check_disk()
            if not settings.ENV.upstream_url:
                call_command("fetch_model", stdout=self.stdout, stderr=self.stderr)
            self._migrate()
            self._create_admin()
            self._serve(host, listener)
        except KeyboardInterrupt:
            self.stdout.write("\nStopped.")

    def _warn_when_open(self, host: str) -> None:
        if settings.DEBUG and not is_loopback(host):
            self.stderr.write(
                self.style.WARNING(
                    f"HOST={host} opens this server to other machines, with Django's debug pages on. For anything but\n"
                    "a trial in a network you trust, set STREAMSITE_DEBUG=0 and STREAMSITE_ALLOWED_HOSTS to its name."
                )
            )

    def _migrate(self) -> None:
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except DatabaseError as exc:
            raise CommandError(
                f"The database does not answer: {str(exc).strip()}\nCheck DATABASE_URL; without it, SQLite in "
                f"{settings.STREAMSITE_VAR} is used."
            ) from exc

    def _create_admin(self) -> None:
        """Create the first admin account; its password is shown here once and kept only as a hash."""
        users = get_user_model()._default_manager
        if users.filter(is_superuser=True).exists():
            return
        password = secrets.token_urlsafe(12)
        users.create_superuser(username="admin", password=password)
        self.stdout.write(f"Admin account: user admin, password {password}  (shown only this once)")

    def _serve(self, host: str, listener: socket.socket) -> None:
        address = f"http://{in_url(host)}:{listener.getsockname()[1]}/"
        server = Server(configuration(), on_start=lambda: self._announce(address))
        server.run(sockets=[listener])
        if not server.started:
            raise CommandError("The server could not start; the lines above say why.")

    def _announce(self, address: str) -> None:
        self.stdout.write(
            f"\n  Chat   {address}\n  Admin  {address}admin/\n\n  Or from another terminal:\n\n"
            f"{CURL.format(address=address)}\n\n"
            "  The model loads in the background; a question asked meanwhile waits. Ctrl-C stops the server.\n"
        )
        self.stdout.flush()


class Server(uvicorn.Server):
    """uvicorn, with a word when it listens."""

    def __init__(self, config: uvicorn.Config, *, on_start: Any) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_start()


def configuration() -> uvicorn.Config:
    """One worker, because each one would load a model of its own."""
    return uvicorn.Config(
        "streamsite.asgi:application",
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
        backlog=2048,
        # Streams have their own limit, which answers in the API's words; this one is for sockets.
        limit_concurrency=4 * settings.STREAMSITE_MAX_STREAMS,
        forwarded_allow_ips="127.0.0.1",
    )


def bind(host: str, port: int) -> socket.socket:
    """Claim the address without listening yet, so that nobody connects before the server is up."""
    # The system would take the rest of a division by 65,536.
    if not 1 <= port <= 65535:
        raise CommandError(f"The port is {port}; it must be a number from 1 to 65535.")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except OSError as exc:
        raise CommandError(f"HOST is {host!r}, which is no address of this machine: {exc.strerror}.") from exc
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(place)
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise CommandError(
                f"Port {port} is taken, perhaps by another `make run`. Stop that, or choose another port:\n\n"
                f"  PORT={port + 1} make run"
            ) from exc
        raise CommandError(f"Cannot listen on {host}:{port}: {exc.strerror}. Set HOST and PORT.") from exc
    return listener


def in_url(host: str) -> str:
    """The host as a browser takes it: this machine for "all addresses", IPv6 in brackets."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host.strip("[]"), host.strip("[]"))
    return f"[{host}]" if ":" in host else host


def check_disk() -> None:
    """Raise CommandError when the var folder cannot hold the model and the records."""
    folder = settings.STREAMSITE_VAR
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise CommandError(f"Cannot make the folder {folder}: {exc.strerror}. Set STREAMSITE_VAR to another.") from exc
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < NEEDED_DISK_GB:
        raise CommandError(
            f"Not enough disk space: {free_gb:.1f} GB free in {folder}, {NEEDED_DISK_GB:.0f} GB needed. Free some, or\n"
            "set STREAMSITE_VAR to a folder on a larger disk."
        )
