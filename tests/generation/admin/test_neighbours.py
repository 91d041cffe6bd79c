from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from generation import stream_search
from generation.admin import neighbours as neighbours_module
from generation.models import Stream

MakeStream = Callable[..., Stream]


def neighbours(client: Client, stream: Stream, address: str = "") -> tuple[str | None, str | None]:
    """Where the links to the newer and the older stream lead."""
    html = client.get(reverse("admin:generation_stream_change", args=[stream.pk]) + address).content.decode()
    newer = re.search(r'<a href="([^"]*)" rel="prev" id="newer-stream"', html)
    older = re.search(r'<a href="([^"]*)" rel="next" id="older-stream"', html)
    return unescape(newer[1]) if newer else None, unescape(older[1]) if older else None


def page(stream: Stream, list_query: str = "") -> str:
    return f"/admin/generation/stream/{stream.pk}/change/{list_query}"


def test_all_streams_are_neighbours_when_the_page_was_opened_by_its_address(
    admin_client: Client, make_stream: MakeStream
) -> None:
    oldest, middle, newest = make_stream(), make_stream(), make_stream()
    assert neighbours(admin_client, middle) == (page(newest), page(oldest))
    assert neighbours(admin_client, newest) == (None, page(middle))
    assert neighbours(admin_client, oldest) == (page(middle), None)


def test_neighbours_are_those_of_the_filtered_list_when_it_led_here(
    admin_client: Client, make_stream: MakeStream
) -> None:
    oldest = make_stream(model="wanted")
    make_stream(model="other")
    middle = make_stream(model="wanted")
    make_stream(model="other")
    newest = make_stream(model="wanted")
    carried = "?_changelist_filters=model%3Dwanted"
    assert neighbours(admin_client, middle, carried) == (page(newest, carried), page(oldest, carried))


def test_the_lists_own_links_carry_its_filters_when_followed(admin_client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(model="wanted")
    html = admin_client.get("/admin/generation/stream/?model=wanted").content.decode()
    assert f'href="{page(stream)}?_changelist_filters=model%3Dwanted"' in html


def test_a_deep_pages_cursor_does_not_cut_off_neighbours_when_carried(
    admin_client: Client, make_stream: MakeStream
) -> None:
    oldest, middle, newest = make_stream(), make_stream(), make_stream()
    newer, older = neighbours(admin_client, middle, f"?_changelist_filters=before%3D{newest.pk}")
    assert newer is not None
    assert older is not None
    assert newer.startswith(page(newest))
    assert older.startswith(page(oldest))


def test_neighbours_have_the_word_when_a_search_led_here(
    admin_client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_search, "FIRST_WINDOW", 2)
    oldest = make_stream(["chai"])
    others = [make_stream(["tea"]) for _ in range(6)]
    middle = make_stream(["chai"])
    newest = make_stream(["chai"])
    carried = "?_changelist_filters=q%3Dchai"
    assert neighbours(admin_client, middle, carried) == (page(newest, carried), page(oldest, carried))
    monkeypatch.setattr(neighbours_module, "NEIGHBOUR_S", 0.0)
    monkeypatch.setattr(stream_search, "FIRST_WINDOW", 1)
    monkeypatch.setattr(stream_search, "_larger", lambda size, took_s, by_bitmaps: 1)
    looking = f"/admin/generation/stream/?q=chai&before={others[4].pk}"
    assert neighbours(admin_client, middle, carried) == (page(newest, carried), looking)
    assert neighbours(admin_client, oldest, carried)[1] is None


@pytest.mark.parametrize("carried", ["nonsense%3D1", "state__exact%3Dnone", "user__password%3Dx", "%00", "p%3Dx"])
def test_the_page_stands_when_the_carried_filters_are_nonsense(
    carried: str, admin_client: Client, make_stream: MakeStream
) -> None:
    stream = make_stream()
    response = admin_client.get(page(stream, f"?_changelist_filters={carried}"))
    assert response.status_code == 200


def test_carried_filters_add_no_markup_when_hostile(admin_client: Client, make_stream: MakeStream) -> None:
    stream = make_stream()
    make_stream()
    response = admin_client.get(page(stream), {"_changelist_filters": 'q="><script>alert(1)</script>'})
    assert "<script>alert" not in response.content.decode()


def test_the_number_of_queries_is_fixed_when_the_stream_is_long(
    admin_client: Client, make_stream: MakeStream, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_stream()
    stream = make_stream([f"{number} " for number in range(10_000)], batch_size=25)
    make_stream()
    admin_client.get(page(stream))  # logs the view
    # Session, user, stream with its relations, newer, older, the logged view, reviews, batches.
    with django_assert_num_queries(8):
        html = admin_client.get(page(stream)).content.decode()
    assert "verdict-yes" in html
    assert len(html) < 120_000


def test_the_number_of_queries_is_fixed_when_a_search_led_here(
    admin_client: Client, make_stream: MakeStream, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    _, stream, _ = make_stream(["chai"]), make_stream(["chai"]), make_stream(["chai"])
    address = page(stream, "?_changelist_filters=q%3Dchai%26state__exact%3Ddone")
    admin_client.get(address)  # logs the view
    # Session, user, stream; menus (4), ids and users named so; the ends of the list and a neighbour, twice; the logged
    # view, reviews, batches.
    with django_assert_num_queries(18):
        admin_client.get(address)
