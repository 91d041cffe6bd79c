"""Measure the staff's list of streams and the page of one, on the database of DATABASE_URL.

Fill it with `manage.py migrate && manage.py seed_demo_streams --count 1000000` first. Run `.venv/bin/python -m
bench.admin [--rounds N]`: each page is asked for N times in this process, in turns. Prints the median and the 95th
percentile of the server's time, the CPU time of this process (SQLite's is in it, PostgreSQL's is not), the number of
queries, and whether the goal is met; exit status 1 when one is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlencode

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "streamsite.settings")
django.setup()

import numpy as np  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import reverse  # noqa: E402

from generation.admin.stream_page import LIST_QUERY  # noqa: E402
from generation.models import Stream  # noqa: E402

GOAL_MS = 300.0
USER = "bench-admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One page's times in milliseconds (``cpu_ms``: this process's, median) and how many queries it took."""

    name: str
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    queries: int


def main() -> int:
    """Measure every page and print a table."""
    parser = argparse.ArgumentParser(description="Measure the staff pages on many streams.")
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    ids = Stream.objects.order_by("-pk").values_list("pk", flat=True)
    newest = ids.first()
    if newest is None:
        sys.exit("There are no streams; run `manage.py seed_demo_streams --count 1000000` first.")
    staff, _ = get_user_model()._default_manager.get_or_create(
        username=USER, defaults={"is_staff": True, "is_superuser": True, "password": "!"}
    )
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(staff)
    try:
        results = measure(client, pages(newest), rounds)
    finally:
        staff.delete()
    print(f"{connection.vendor}, about {newest} streams, {rounds} rounds; goal: p95 within {GOAL_MS:.0f} ms")
    for result in results:
        met = "ok" if result.p95_ms <= GOAL_MS else "MISSED"
        print(
            f"{result.name:58} p50 {result.p50_ms:7.1f} ms  p95 {result.p95_ms:7.1f} ms  "
            f"cpu {result.cpu_ms:6.1f} ms  {result.queries:3} queries  {met}"
        )
    return int(any(result.p95_ms > GOAL_MS for result in results))


def pages(newest: int) -> dict[str, str]:
    """The addresses to measure, by what they are."""
    listed = reverse("admin:generation_stream_changelist")
    user, key = (
        Stream.objects.exclude(**{column: None}).values_list(column, flat=True).first() or 0
        for column in ("user_id", "api_key_id")
    )
    filters = [
        "", "started=any", "started=1h", "started=7d", "started=30d", f"started=any&before={newest // 2}",
        f"started=any&after={newest // 2}", "started=30d&state__exact=failed", "started=any&state__exact=lost",
        "started=any&stop_reason__exact=length", "started=any&stop_reason__exact=timeout",
        "started=any&ended_by__exact=client", "started=any&ended_by__exact=upstream", "started=any&model=seed-hindi",
        "started=any&model=none", "started=any&backend=seed", "started=any&source=command", "started=any&ttft=1",
        "started=any&ttft=10", "started=any&ttft=30", "started=any&gap=10", "started=any&held=utf8",
        "started=any&held=context", "started=any&proof=different", "started=any&proof=equal", "started=any&label=good",
        "started=any&label=odd", f"started=any&user={user}", f"started=any&key={key}",
        "started=24h&model=seed-tea&stop_reason__exact=timeout",
        # Several at once, of which the last three have no stream together.
        f"started=any&label=good&model=seed-tea&user={user}", f"started=any&key={key}&stop_reason__exact=client_stop",
        "started=any&label=good&stop_reason__exact=engine_error", f"started=any&key={key}&model=seed-tides",
        "started=any&model=seed-hindi&stop_reason__exact=length", "started=any&label=good&source=command",
    ]  # fmt: skip
    # Words of four streams in ten, of one in eight, in two hundred, in ten thousand, of none; then with filters.
    searches = [
        "q=letter", "q=चाय", "q=monsoon", "q=इलायची", "q=saffron", "q=nowhere", f"q=letter&before={newest // 2}",
        f"q=saffron&after={newest // 2}", "q=letter&label=good", f"q=monsoon&user={user}", f"q=चाय&key={key}",
        "q=letter&stop_reason__exact=client_stop", "q=letter&started=24h", "q=saffron&label=good",
        "q=letter&model=seed-hindi", "q=चाय&stop_reason__exact=length", "q=letter&label=good&model=seed-hindi",
        "q=seed-07", "q=seed", "q=seed&model=none", f"q={newest // 3}",
    ]  # fmt: skip
    found = {f"list ?{each}": f"{listed}?{each}" for each in filters + searches}
    for name, pk in (("newest", newest), ("in the middle", newest // 2)):
        found[f"stream, {name}"] = reverse("admin:generation_stream_change", args=[pk])
    for each in ("started=any&label=good", "q=saffron", "q=letter&model=seed-hindi"):
        found[f"stream, of ?{each}"] = f"{found['stream, in the middle']}?{urlencode({LIST_QUERY: each})}"
    for name in ("conversation", "review"):
        found[f"{name}s"] = reverse(f"admin:generation_{name}_changelist")
    return found


def measure(client: Client, addresses: dict[str, str], rounds: int) -> list[Measured]:
    """Ask for every page in turn, ``rounds`` times; a first time, which is not counted, counts the queries."""
    queries: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in addresses}
    cpu: dict[str, list[float]] = {name: [] for name in addresses}
    for name, address in addresses.items():
        with CaptureQueriesContext(connection) as captured:
            response = client.get(address)
        if response.status_code != 200:
            sys.exit(f"{address} answered {response.status_code}, not 200")
        queries[name] = len(captured)
    for _ in range(rounds):
        for name, address in addresses.items():
            begun_at, cpu_begun_at = time.perf_counter(), time.process_time()
            client.get(address)
            times[name].append(1000 * (time.perf_counter() - begun_at))
            cpu[name].append(1000 * (time.process_time() - cpu_begun_at))
    return [
        Measured(
            name=name,
            p50_ms=float(np.percentile(times[name], 50)),
            p95_ms=float(np.percentile(times[name], 95)),
            cpu_ms=float(np.percentile(cpu[name], 50)),
            queries=queries[name],
        )
        for name in addresses
    ]


if __name__ == "__main__":
    sys.exit(main())
