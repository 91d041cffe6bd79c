from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from generation.admin import run_admin
from generation.models import Run, RunItem, Stream


@pytest.fixture
def run(db: None) -> Run:
    return Run.objects.create(name="nightly", corpus="prompts.jsonl", model="scripted", parameters={"seed": 7})


def page_of(run: Run) -> str:
    return reverse("admin:generation_run_change", args=[run.pk])


def cells(html: str) -> list[list[str]]:
    body = html.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
    ]


def test_items_are_shown_with_their_streams_when_there_are_some(
    admin_client: Client, run: Run, make_stream: Callable[..., Stream]
) -> None:
    stream = make_stream(ttft_visible_s=0.05, total_s=1.0, completion_tokens=0)
    RunItem.objects.create(run=run, position=0, item_id="a", stream=stream)
    RunItem.objects.create(run=run, position=1, item_id="b", error="no such model")
    html = admin_client.get(page_of(run)).content.decode()
    assert cells(html) == [
        ["0", "a", f"{stream.pk} done", "eos", "50.0 ms", "1.00 s", "0", ""],
        ["1", "b", "–", "–", "–", "–", "–", "no such model"],
    ]


def test_items_are_paged_when_the_corpus_is_long(
    admin_client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_admin, "ITEMS_PER_PAGE", 2)
    RunItem.objects.bulk_create(RunItem(run=run, position=number, item_id=f"item-{number}") for number in range(5))
    html = admin_client.get(page_of(run) + "?from=3").content.decode()
    assert [row[1] for row in cells(html)] == ["item-2", "item-3"]
    assert html.count('href="?from=1#items"') == html.count('href="?from=5#items"') == 2


def test_the_page_takes_five_queries_when_there_are_many_items(
    admin_client: Client,
    run: Run,
    make_stream: Callable[..., Stream],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    RunItem.objects.bulk_create(
        RunItem(run=run, position=number, item_id=f"item {number}", stream=make_stream()) for number in range(10)
    )
    # Session, staff user, run, number of items, items with their streams.
    with django_assert_num_queries(5):
        admin_client.get(page_of(run))
