from __future__ import annotations

import datetime
import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from generation import stream_search
from generation.access import create_key
from generation.admin import stream_change_list
from generation.admin.stream_admin import StreamAdmin
from generation.models import Review, Stream

LIST = reverse("admin:generation_stream_changelist")


@pytest.fixture
def seven(make_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of seven streams, newest first, in a list of three a page."""
    monkeypatch.setattr(StreamAdmin, "list_per_page", 3)
    return [make_stream().pk for _ in range(7)][::-1]


def page(client: Client, address: str = "") -> tuple[list[int], dict[str, str]]:
    """The ids of one page of the list, and its links by their words."""
    html = client.get(LIST + address).content.decode()
    ids = [int(pk) for pk in re.findall(r'<th class="field-id"><a href="/admin/generation/stream/(\d+)/change/', html)]
    links = re.findall(r'<a href="(\?[^"]*)"[^>]*>(?:« |‹ )?(Newest|Newer|Older)', html)
    return ids, {words: href.replace("&amp;", "&") for href, words in links}


def test_all_streams_are_met_once_when_paging_through(admin_client: Client, seven: list[int]) -> None:
    first, links = page(admin_client)
    assert (first, set(links)) == (seven[:3], {"Older"})
    second, links = page(admin_client, links["Older"])
    assert (second, set(links)) == (seven[3:6], {"Newest", "Newer", "Older"})
    third, links = page(admin_client, links["Older"])
    assert (third, set(links)) == (seven[6:], {"Newest", "Newer"})
    back, links = page(admin_client, links["Newer"])
    assert (back, set(links)) == (seven[3:6], {"Newest", "Newer", "Older"})
    again, links = page(admin_client, links["Newer"])
    assert (again, set(links)) == (seven[:3], {"Newest", "Older"})


def test_page_says_so_when_nothing_was_found(admin_client: Client, seven: list[int]) -> None:
    assert "No streams were found." in admin_client.get(LIST + "?q=nowhere").content.decode()
    assert "No streams were found." not in admin_client.get(LIST).content.decode()


def test_a_page_stays_the_same_when_new_streams_arrive(
    admin_client: Client, seven: list[int], make_stream: Callable[..., Stream]
) -> None:
    older = page(admin_client)[1]["Older"]
    make_stream()
    assert page(admin_client, older)[0] == seven[3:6]


def test_filters_stay_when_paging(admin_client: Client, seven: list[int]) -> None:
    Stream.objects.filter(pk=seven[1]).update(source="page")
    ids, links = page(admin_client, "?source=api")
    assert ids == [seven[0], seven[2], seven[3]]
    assert page(admin_client, links["Older"])[0] == seven[4:]


def test_the_list_begins_anew_when_a_filter_is_chosen(admin_client: Client, seven: list[int]) -> None:
    html = admin_client.get(f"{LIST}?before={seven[2]}").content.decode()
    assert 'href="?source=api"' in html
    assert 'name="before"' not in html


def test_the_order_is_newest_first_when_the_address_says_otherwise(admin_client: Client, seven: list[int]) -> None:
    assert page(admin_client, "?o=1")[0] == seven[:3]


@pytest.mark.parametrize("address", ["?before=x", "?after=", "?before=1.5", "?nonsense=1"])
def test_the_list_is_shown_without_it_when_a_parameter_is_wrong(
    address: str, admin_client: Client, seven: list[int]
) -> None:
    response = admin_client.get(LIST + address)
    assert (response.status_code, response["Location"]) == (302, f"{LIST}?e=1")


@pytest.mark.parametrize("address", ["?before=0", f"?after={2**62}", f"?before=-{10**30}"])
def test_the_page_is_empty_when_nothing_lies_beyond(address: str, admin_client: Client, seven: list[int]) -> None:
    assert page(admin_client, address) == ([], {"Newest": "?"})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that looks at two ids a page."""
    monkeypatch.setattr(stream_search, "FIRST_WINDOW", 1)
    monkeypatch.setattr(stream_search, "_larger", lambda size, took_s, by_bitmaps: 1)
    monkeypatch.setattr(stream_change_list, "SEARCH_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_the_page_says_how_far_it_looked_when_a_search_ran_out_of_time(
    admin_client: Client, seven: list[int], make_stream: Callable[..., Stream]
) -> None:
    Stream.objects.filter(pk__in=[seven[3], seven[6]]).update(text="green chai")
    html = admin_client.get(LIST, {"q": "chai"}).content.decode()
    assert f"Looked as far as stream {seven[1]}; none of these was found." in html
    found, address, pages = [], "?q=chai", 0
    while address:
        html = admin_client.get(LIST + address).content.decode()
        further = re.search(r'<a href="([^"]*)" rel="next">Look further ›', html)
        found += page(admin_client, address)[0]
        address, pages = further[1].replace("&amp;", "&") if further else "", pages + 1
    assert (found, pages) == ([seven[3], seven[6]], 4)
    assert "Looked as far" not in html


@pytest.mark.usefixtures("impatient")
def test_newer_streams_are_looked_for_further_when_a_search_ran_out_of_time(
    admin_client: Client, seven: list[int]
) -> None:
    Stream.objects.filter(pk=seven[0]).update(text="green chai")
    address, pages = f"?q=chai&after={seven[6]}", 0
    while not page(admin_client, address)[0]:
        html = admin_client.get(LIST + address).content.decode()
        (further,) = re.findall(r'<a href="([^"]*)" rel="prev">‹ Look further', html)
        address, pages = further.replace("&amp;", "&"), pages + 1
    assert (page(admin_client, address)[0], pages) == ([seven[0]], 2)


def test_a_search_takes_twelve_queries_when_the_first_window_is_all(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    for _ in range(20):
        Review.objects.create(stream=make_stream(["green chai"]), label="good")
    # Session, staff user, ids and users named so, menus (4), the newest and the oldest id, rows, labels.
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(LIST, {"q": "chai", "label": "good"})
    assert len(queries) == 12


def test_the_list_takes_nine_queries_when_shown(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    user = User.objects.create_user("reader")
    for _ in range(20):
        Review.objects.create(stream=make_stream(user=user), label="good")
    # Session, staff user, names of models, backends, users and keys, the first id of the past day, rows, labels.
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(LIST)
    assert len(queries) == 9
    rows = queries[-2]["sql"]
    assert "COUNT(" not in "".join(query["sql"] for query in queries)
    assert not re.search(r'"(messages|parameters|token_ids|token_offsets|holds|password)"', rows)
    assert re.findall(r'\S*"generation_stream"."text"\S*', rows) == ['SUBSTR("generation_stream"."text",'] or (
        connection.vendor != "sqlite"
    )


def test_a_stream_is_told_in_one_line_when_listed(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    user = User.objects.create_user("reader")
    stream = make_stream(
        ["Once\n upon\0", "\x1b[31mtime" + "x" * 99],
        ttft_visible_s=0.0,
        total_s=1.5,
        completion_tokens=40,
        tpot_s=0.025,
        icl_max_s=0.25,
        ended_by="model",
        proof="invalid_bytes",
        user=user,
        api_key=create_key(user, "laptop")[0],
        started_at=datetime.datetime(2026, 3, 1, 12, 0, 1, tzinfo=datetime.UTC),
    )
    for label in ("good", "", "odd", "good"):
        Review.objects.create(stream=stream, label=label)
    html = admin_client.get(LIST, {"started": "any"}).content.decode()
    cells = dict(re.findall(r'<td class="field-(\w+)[^"]*">(.*?)</td>', html))
    assert cells == {
        "state_badge": '<span class="state state-done">done</span>',
        "model": "scripted",
        "backend_name": "default",
        "caller": "reader, laptop",
        "started": "2026-03-01 12:00:01",
        "ttft": "0 ms",
        "gap": "250 ms",
        "total": "1.50 s",
        "tokens": "40",
        "tokens_per_s": "40.0",
        "reason": "eos",
        "ender": "model",
        "verdict": "invalid bytes",
        "labels": "good, odd",
        "first_words": "Once upon\\x00\\x1b[31mtime" + "x" * 56 + "…",
    }


def test_figures_are_dashes_when_the_stream_runs(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    make_stream(state="running")
    html = admin_client.get(LIST).content.decode()
    cells = dict(re.findall(r'<td class="field-(\w+)[^"]*">(.*?)</td>', html))
    assert {
        cells[name]
        for name in ("ttft", "total", "tokens", "tokens_per_s", "reason", "caller", "gap", "ender", "verdict", "labels")
    } == {"–"}
