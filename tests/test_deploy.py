"""The files in deploy/ agree with uvicorn and with `manage.py serve`."""

from __future__ import annotations

import configparser
import re
import shlex

import uvicorn
from django.conf import settings

from generation.management.commands.serve import configuration
from tests.live_server import ROOT

#: What the unit's command line and `serve` must have in common.
SHARED = (
    "loop",
    "http",
    "lifespan",
    "timeout_graceful_shutdown",
    "timeout_keep_alive",
    "backlog",
    "limit_concurrency",
    "forwarded_allow_ips",
    "server_header",
    "access_log",
)


def test_unit_starts_uvicorn_as_serve_does() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    text = (ROOT / "deploy" / "streamsite@.service").read_text(encoding="utf-8")
    unit.read_string(text.replace("\\\n", " ").replace("%i", "8001"))
    python, _, program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert (python, program) == ("/opt/streamsite/.venv/bin/python", "uvicorn")
    options = uvicorn.main.make_context("uvicorn", arguments).params
    assert options["app"] == settings.ASGI_APPLICATION.replace(".application", ":application")
    assert (options["workers"], options["host"], options["port"]) == (1, "127.0.0.1", 8001)
    config = configuration()
    assert {name: options[name] for name in SHARED} == {name: getattr(config, name) for name in SHARED}
    assert int(unit["Service"]["TimeoutStopSec"]) > config.timeout_graceful_shutdown + settings.STREAMSITE_DRAIN_S


def test_nginx_passes_streams_through_unbuffered() -> None:
    site = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    directives = dict(re.findall(r"^\s*(\w+) ([^;{]+);", site, re.MULTILINE))
    assert directives["proxy_buffering"] == "off"
    assert directives["gzip"] == "off"
    assert directives["proxy_http_version"] == "1.1"
    assert directives["proxy_ignore_client_abort"] == "off"
    assert int(directives["proxy_read_timeout"].removesuffix("s")) > 2 * settings.STREAMSITE_KEEP_ALIVE_S
    assert int(directives["client_max_body_size"].removesuffix("m")) * 2**20 == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
