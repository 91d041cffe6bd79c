from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation.admin.started_filter import started_between
from generation.models import Stream

LIST = reverse("admin:generation_stream_changelist")
MakeStream = Callable[..., Stream]


@pytest.fixture
def aged(make_stream: MakeStream) -> dict[str, Stream]:
    """A stream of each age, the oldest first, as ids are given."""
    user = User.objects.create_user("ada")
    return {
        name: make_stream(started_at=timezone.now() - age, user=user)
        for name, age in {
            "years": timedelta(days=800),
            "weeks": timedelta(days=20),
            "days": timedelta(days=3),
            "hours": timedelta(hours=5),
            "minutes": timedelta(minutes=5),
        }.items()
    }


def listed(client: Client, aged: dict[str, Stream], **parameters: str) -> list[str]:
    html = client.get(LIST, parameters).content.decode()
    ids = re.findall(r'<th class="field-id"><a href="/admin/generation/stream/(\d+)/change/', html)
    return [name for pk in ids for name, stream in aged.items() if stream.pk == int(pk)]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, ["minutes", "hours"]),
        ({"state__exact": "done"}, ["minutes", "hours"]),
        ({"started": "1h"}, ["minutes"]),
        ({"started": "7d"}, ["minutes", "hours", "days"]),
        ({"started": "30d"}, ["minutes", "hours", "days", "weeks"]),
        ({"started": "any"}, ["minutes", "hours", "days", "weeks", "years"]),
        ({"q": "ada"}, ["minutes", "hours", "days", "weeks", "years"]),
        ({"q": "ada", "started": "24h"}, ["minutes", "hours"]),
    ],
    ids=str,
)
def test_the_past_day_is_listed_when_no_other_time_is_asked_for(
    parameters: dict[str, str], expected: list[str], admin_client: Client, aged: dict[str, Stream]
) -> None:
    assert listed(admin_client, aged, **parameters) == expected


def test_streams_of_every_time_are_listed_when_their_user_is_named(
    admin_client: Client, aged: dict[str, Stream]
) -> None:
    user = str(User.objects.get(username="ada").pk)
    assert listed(admin_client, aged, user__id__exact=user) == ["minutes", "hours", "days", "weeks", "years"]


def test_a_range_is_listed_when_linked(admin_client: Client, aged: dict[str, Stream]) -> None:
    since, until = aged["weeks"].started_at, aged["hours"].started_at
    link = {"started_at__gte": since.isoformat(), "started_at__lt": until.isoformat()}
    assert listed(admin_client, aged, **link) == ["days", "weeks"]
    html = admin_client.get(LIST, link).content.decode()
    assert f"{since:%Y-%m-%d %H:%M} – {until:%Y-%m-%d %H:%M}" in html
    assert 'href="?started=any"' in html


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01T00:00:00", ""])
def test_the_list_is_shown_without_it_when_a_time_is_wrong(value: str, admin_client: Client) -> None:
    response = admin_client.get(LIST, {"started_at__gte": value})
    assert (response.status_code, response["Location"]) == (302, f"{LIST}?e=1")


def test_nothing_is_read_when_no_stream_is_as_new(aged: dict[str, Stream]) -> None:
    assert started_between(Stream.objects.all(), timezone.now(), None).query.is_empty()
