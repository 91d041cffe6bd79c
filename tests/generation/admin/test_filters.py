from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from generation.access import create_key
from generation.admin.filters import recorded
from generation.models import Review, Stream
from generation.models.stream import HOLD_CAUSES

LIST = reverse("admin:generation_stream_changelist")


def listed(client: Client, **parameters: str) -> list[int]:
    html = client.get(LIST, parameters).content.decode()
    return [int(pk) for pk in re.findall(r'<th class="field-id"><a href="/admin/generation/stream/(\d+)/change/', html)]


HELD = {"count": 1, "size": 2, "total_s": 0.5, "longest_s": 0.5}


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        pytest.param({"state__exact": "failed"}, {"state": "failed", "stop_reason": "engine_error"}, id="state"),
        pytest.param({"stop_reason__exact": "length"}, {"stop_reason": "length"}, id="stop reason"),
        pytest.param({"ended_by__exact": "client"}, {"ended_by": "client"}, id="who ended it"),
        pytest.param({"model": "other"}, {"model": "other"}, id="model"),
        pytest.param({"backend": "other"}, {"backend": "other"}, id="backend"),
        pytest.param({"source": "page"}, {"source": "page"}, id="source"),
        pytest.param({"proof": "different"}, {"proof": "different"}, id="proof"),
        pytest.param({"ttft": "2"}, {"ttft_visible_s": 2.0}, id="slow first words"),
        pytest.param({"gap": "5"}, {"icl_max_s": 5.5}, id="long gap"),
        pytest.param({"held": "utf8"}, {"holds": {"utf8": HELD, "stop": HELD}}, id="held back"),
    ],
)
def test_only_matching_streams_are_listed_when_filtered(
    parameters: dict[str, str], fields: dict[str, object], admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    make_stream(ttft_visible_s=1.9, icl_max_s=4.9, proof="equal", holds={"context": HELD})
    wanted = make_stream(**fields)
    assert listed(admin_client, **parameters) == [wanted.pk]


def test_only_their_streams_are_listed_when_user_or_key_is_chosen(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    ada = User.objects.create_user("ada")
    key, _ = create_key(ada, "laptop")
    make_stream()
    by_user, by_key = make_stream(user=ada), make_stream(api_key=key)
    assert listed(admin_client, user=str(ada.pk)) == [by_user.pk]
    assert listed(admin_client, key=str(key.pk)) == [by_key.pk]
    menus = admin_client.get(LIST).content.decode()
    assert (f"?user={ada.pk}" in menus, f"laptop ({key.prefix})" in menus) == (True, True)


def test_only_labelled_streams_are_listed_when_a_label_is_chosen(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    make_stream()
    wanted = make_stream()
    for _ in range(2):
        Review.objects.create(stream=wanted, label="good")
    assert listed(admin_client, label="good") == [wanted.pk]


@pytest.mark.parametrize(
    "parameters", [{"ttft": "x"}, {"gap": "1); --"}, {"held": "x"}, {"proof": "'"}, {"user": "x"}, {"key": "9" * 40}]
)
def test_nothing_is_listed_when_the_choice_is_none(
    parameters: dict[str, str], admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    make_stream(ttft_visible_s=9.0, user=(ada := User.objects.create_user("ada")))
    create_key(ada, "laptop")
    assert listed(admin_client, **parameters) == []


@pytest.mark.parametrize(
    ("parameters", "index"),
    [
        ({"ttft": "5"}, "stream_slow_ttft"),
        ({"gap": "5"}, "stream_long_gap"),
        ({"proof": "different"}, "stream_by_proof"),
        *(({"held": cause}, f"stream_held_{cause}") for cause in HOLD_CAUSES),
        ({"stop_reason__exact": "lost"}, "stream_by_stop_reason"),
        ({"ended_by__exact": "upstream"}, "stream_by_ended_by"),
        ({"source": "command"}, "stream_by_source"),
        ({"backend": "other"}, "stream_by_backend"),
    ],
)
def test_an_index_gives_the_streams_in_order_when_filtered(
    parameters: dict[str, str], index: str, admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    make_stream()
    with CaptureQueriesContext(connection) as queries:
        listed(admin_client, started="any", **parameters)
    (rows,) = [query["sql"] for query in queries if "ORDER BY" in query["sql"] and "first_words" in query["sql"]]
    if connection.vendor == "sqlite":  # PostgreSQL plans by statistics, and a few rows it reads without an index
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + rows)
            plan = " ".join(row[3] for row in cursor.fetchall())
        assert f" {index} " in f"{plan} "
        assert "TEMP B-TREE" not in plan


@pytest.mark.django_db
def test_no_model_is_offered_when_there_are_no_streams() -> None:
    assert recorded("model") == []


def test_each_model_is_offered_once_when_recorded(make_stream: Callable[..., Stream]) -> None:
    for model in ("b", "a", "b", "c", "a", "Über <b>"):
        make_stream(model=model)
    assert recorded("model") == ["a", "b", "c", "Über <b>"]


def test_the_offer_is_bounded_when_there_are_many_models(make_stream: Callable[..., Stream]) -> None:
    for model in ("a", "b", "c"):
        make_stream(model=model)
    assert recorded("model", limit=2) == ["a", "b"]


@pytest.mark.django_db
def test_models_come_from_one_query_over_the_index_when_offered() -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        recorded("model")
    assert len(queries) == 1
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + queries[0]["sql"])
            steps = [row[3] for row in cursor.fetchall() if "generation_stream" in row[3]]
        assert len(steps) == 2
        assert all("USING COVERING INDEX stream_by_model" in step for step in steps)
