"""A real nginx in front of a live server: with the site of deploy/, or with nothing but ``proxy_pass``."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.live_server import ROOT, free_port, wait_until

SiteName = Literal["deploy", "plain"]

# One process that stays in the foreground; every file it writes is in its folder.
MAIN = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log notice;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {http}
    {site}
}}
"""
PLAIN = """\
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
    }}
"""


@contextlib.contextmanager
def nginx(
    folder: Path, upstream: int, *, site: SiteName = "deploy", read_timeout: str = "60s", http: str = ""
) -> Iterator[str]:
    """Start nginx before 127.0.0.1:``upstream``; yields its base URL. ``http`` adds directives for all sites."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    if site == "deploy":
        text = rendered(port, upstream, read_timeout)
    else:
        text = PLAIN.format(port=port, upstream=upstream)
        http += f"proxy_read_timeout {read_timeout};"
    configuration = folder / "nginx.conf"
    configuration.write_text(MAIN.format(folder=folder, http=http, site=text))
    process = subprocess.Popen(
        [program, "-c", str(configuration), "-e", str(folder / "error.log")], stdin=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: answers(process, f"http://127.0.0.1:{port}", folder), what="nginx to answer")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def rendered(port: int, upstream: int, read_timeout: str) -> str:
    """The site of deploy/nginx.conf with these ports and without TLS."""
    text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for pattern, replacement in (
        (r"server 127\.0\.0\.1:8000;", f"server 127.0.0.1:{upstream};"),
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port} default_server;"),
        (r"ssl_certificate [^;]+;", ""),
        (r"ssl_certificate_key [^;]+;", ""),
        (r"proxy_read_timeout [^;]+;", f"proxy_read_timeout {read_timeout};"),
        # The redirect to TLS.
        (r"server \{\s+listen 80;[^}]+\}", ""),
    ):
        text, count = re.subn(pattern, replacement, text)
        assert count == 1, f"{pattern} is in deploy/nginx.conf {count} times"
    return text


def answers(process: subprocess.Popen[bytes], base_url: str, folder: Path) -> bool:
    assert process.poll() is None, (folder / "error.log").read_text()
    try:
        with urllib.request.urlopen(f"{base_url}/healthz", timeout=5) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False
