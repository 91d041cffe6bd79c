"""Try Streamsite in front of real model servers: the same checks for each, over HTTP, through the upstream backend.

Run `.venv/bin/python -m bench.upstreams`. `transformers serve` and `llama_cpp.server` live in ``var/bench-env``; the
latter is compiled there once (``--build-llama``, some minutes). Prints what held; exits with 1 when something did not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.servers import ENVIRONMENT, Launch, Server, has_module, make_environment, running
from generation.engine.model_fetch import prepare_model
from generation.engine.openvino_model import find_openvino_model
from streamsite.env import BASE_DIR
from tests.sse_client import RawResponse, send

QUESTION = [{"role": "user", "content": "Name the days of the week."}]
LLAMA = "llama-cpp-python[server]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A model server to put behind the site, and the kind that the site takes it for."""

    launch: Launch
    kind: str


class Site:
    """Streamsite in front of one of them."""

    def __init__(self, server: Server, records: Path) -> None:
        self.base_url, self._records = server.base_url, records

    async def ask(self, **fields: Any) -> RawResponse:
        body = {"model": "default", "messages": QUESTION, "temperature": 0, "max_tokens": 24, **fields}
        return await send(self.base_url, "POST", "/v1/chat/completions", body=body, timeout_s=120)

    async def whole(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        async with await self.ask(**fields) as response:
            return response.status, json.loads(await response.body())

    async def streamed(self, **fields: Any) -> list[dict[str, Any]]:
        async with await self.ask(stream=True, stream_options={"include_usage": True}, **fields) as response:
            return await response.chunks()

    async def newest(self, *, but: str = "running") -> dict[str, Any]:
        """The newest stream's row, once it has ended."""
        for _ in range(100):
            with contextlib.closing(sqlite3.connect(self._records)) as database:
                database.row_factory = sqlite3.Row
                row = dict(database.execute("SELECT * FROM generation_stream ORDER BY id DESC LIMIT 1").fetchone())
            if row["state"] != but:
                return row
            await asyncio.sleep(0.1)
        return row


async def text_is_the_same_streamed_and_whole(site: Site) -> bool:
    _, body = await site.whole()
    return _text(await site.streamed()) == body["choices"][0]["message"]["content"] != ""


async def tokens_are_told(site: Site) -> bool:
    usage = (await site.streamed())[-1]["usage"]
    return bool(usage) and usage["prompt_tokens"] > 0 and usage["completion_tokens"] == 24


async def length_is_the_reason_when_it_is(site: Site) -> bool:
    await site.streamed()
    row = await site.newest()
    return (row["stop_reason"], row["finish_reason"]) == ("length", "length")


async def stop_string_ends_the_text_and_is_not_in_it(site: Site) -> bool:
    text = _text(await site.streamed())
    stop = text[8:11]
    cut = _text(await site.streamed(stop=[stop]))
    row = await site.newest()
    return cut == text[: text.index(stop)] and (row["stop_reason"], row["stop_string"]) == ("stop_string", stop)


async def abort_is_recorded_and_the_next_is_answered(site: Site) -> bool:
    async with await site.ask(stream=True, max_tokens=400) as response:
        frames = response.frames()
        for _ in range(4):
            await anext(frames)
        response.abort()
    row = await site.newest()
    return row["stop_reason"] == "client_disconnect" and _text(await site.streamed()) != ""


async def prompt_beyond_the_context_is_refused(site: Site) -> bool:
    status, body = await site.whole(messages=[{"role": "user", "content": "word " * 40_000}])
    return status in {400, 502} and bool(body["error"]["message"])


CHECKS: tuple[Callable[[Site], Awaitable[bool]], ...] = (
    text_is_the_same_streamed_and_whole,
    tokens_are_told,
    length_is_the_reason_when_it_is,
    stop_string_ends_the_text_and_is_not_in_it,
    abort_is_recorded_and_the_next_is_answered,
    prompt_beyond_the_context_is_refused,
)


def main() -> int:
    """Try each server that is installed."""
    parser = argparse.ArgumentParser(description="Try Streamsite in front of real model servers.")
    parser.add_argument("--build-llama", action="store_true", help="compile llama_cpp.server where it is not installed")
    options = parser.parse_args()
    make_environment()
    python = ENVIRONMENT / "bin" / "python"
    if options.build_llama and not has_module(python, "llama_cpp"):
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", LLAMA], check=True)
    failed = 0
    for upstream in _upstreams(python):
        print(upstream.launch.name, flush=True)
        with tempfile.TemporaryDirectory(prefix="streamsite-bench-") as var:
            failed += asyncio.run(_try(upstream, Path(var)))
    return 1 if failed else 0


async def _try(upstream: Upstream, var: Path) -> int:
    failed = 0
    with running([upstream.launch]) as (server,), running([_site(upstream, server, var)]) as (front,):
        site = Site(front, var / "streamsite.sqlite3")
        for check in CHECKS:
            holds = await check(site)
            failed += not holds
            print(f"  {'yes' if holds else 'NO ':3} {check.__name__.replace('_', ' ')}", flush=True)
    return failed


def _upstreams(python: Path) -> list[Upstream]:
    """Those that are installed."""
    folder = str(prepare_model("", BASE_DIR / "var"))
    address = ["--host", "127.0.0.1", "--port", "{port}"]
    known = [
        Upstream(
            kind="transformers",
            launch=Launch(
                name="transformers serve",
                command=[str(ENVIRONMENT / "bin" / "transformers"), "serve", folder, *address],
                model=folder,
                environment={"HF_HUB_OFFLINE": "1"},
                health_path="/health",
            ),
        )
    ]
    if has_module(python, "llama_cpp"):
        gguf = str(find_openvino_model("", BASE_DIR / "var"))
        command = [str(python), "-m", "llama_cpp.server", "--model", gguf, "--n_ctx", "2048", *address]
        launch = Launch(name="llama_cpp.server", command=command, model=gguf, environment={})
        known.append(Upstream(kind="llama.cpp", launch=launch))
    return known


def _site(upstream: Upstream, server: Server, var: Path) -> Launch:
    return Launch(
        name="streamsite",
        command=[sys.executable, "manage.py", "serve", "--host", "127.0.0.1", "--port", "{port}"],
        model="default",
        environment={
            "STREAMSITE_DEBUG": "1",
            "STREAMSITE_VAR": str(var),
            "STREAMSITE_UPSTREAM_URL": f"{server.base_url}/v1",
            "STREAMSITE_UPSTREAM_KIND": upstream.kind,
            "STREAMSITE_UPSTREAM_MODELS": f"behind={upstream.launch.model}",
        },
        health_path="/readyz",
    )


def _text(chunks: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


if __name__ == "__main__":
    sys.exit(main())
