"""Rows for the admin's pages, written as the recorder writes them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from generation.models import DeltaBatch, Stream

MakeStream = Callable[..., Stream]


def delta(text: str, number: int, **fields: Any) -> dict[str, Any]:
    """One delta of a batch: one token each, 0.1 s apart."""
    sent_s = round(0.1 * (number + 1), 6)
    return {
        "text": text,
        "first_token": number,
        "end_token": number + 1,
        "made_s": sent_s,
        "sent_s": sent_s,
        "holds": [],
        **fields,
    }


@pytest.fixture
def make_stream(db: None) -> MakeStream:
    """Write a stream and its batches; ``deltas`` are texts or whole deltas, ``fields`` are columns."""
    numbers = itertools.count(1)
    begun = timezone.now() - datetime.timedelta(hours=1)

    def make(deltas: Sequence[str | dict[str, Any]] = ("Hel", "lo"), *, batch_size: int = 4, **fields: Any) -> Stream:
        whole = [delta(each, number) if isinstance(each, str) else each for number, each in enumerate(deltas)]
        state = fields.get("state", "done")
        ended: dict[str, Any] = {} if state == "running" else {"stop_reason": "eos", "finish_reason": "stop"}
        number = next(numbers)
        defaults = {
            "wire_id": f"chatcmpl-{number:04}",
            "source": "api",
            "model": "scripted",
            "backend": "default",
            "state": state,
            # Lately, because the list shows the past day.
            "started_at": begun + datetime.timedelta(seconds=number),
            "text": "" if state == "running" else "".join(each["text"] for each in whole),
            "delta_count": len(whole),
        }
        stream = Stream.objects.create(**{**defaults, **ended, **fields})
        DeltaBatch.objects.bulk_create(
            DeltaBatch(stream=stream, first_seq=first + 1, deltas=whole[first : first + batch_size])
            for first in range(0, len(whole), batch_size)
        )
        return stream

    return make


@pytest.fixture
def staff_client(db: None) -> Callable[..., Client]:
    """Log in a member of staff who has just these permissions."""

    def login(*codenames: str) -> Client:
        user = User.objects.create_user("staff", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return login


@pytest.fixture
def page_structure() -> Callable[[str], list[tuple[str, tuple[str, ...]]]]:
    """Turn HTML into its start tags with the names of their attributes, without the marks of unseen characters."""
    return _structure


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if ("class", "unseen") not in attrs:
            self.tags.append((tag, tuple(name for name, _ in attrs)))


def _structure(html: str) -> list[tuple[str, tuple[str, ...]]]:
    parser = _Tags()
    parser.feed(html)
    return parser.tags


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "payload" in metafunc.fixturenames:
        payloads = Path(__file__).with_name("payloads.txt").read_text(encoding="utf-8").splitlines()
        metafunc.parametrize("payload", payloads)
