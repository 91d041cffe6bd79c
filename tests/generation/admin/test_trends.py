from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from generation.admin.durations import seconds
from generation.admin.trends_read import SPANS, read_trends
from generation.models import Stream, StreamHour
from generation.recording.buckets import bucket_of, edge_s
from generation.recording.trends import hour_of, rebuild

PAGE = reverse("staff:trends")
NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)


def hour_row(
    hour: datetime, model: str = "scripted", *, streams: int = 1, total_s: float = 2.0, **fields: object
) -> None:
    counts = {str(bucket_of(total_s)): streams}
    StreamHour.objects.create(
        **{"hour": hour, "model": model, "streams": streams, "ends": {"eos": streams}, "total": counts, **fields}
    )


class TestReading:
    @pytest.mark.parametrize(
        ("key", "start"),
        [
            ("24h", datetime(2026, 3, 1, 13, tzinfo=UTC)),
            ("7d", datetime(2026, 2, 23, 13, tzinfo=UTC)),
            ("30d", datetime(2026, 2, 1, tzinfo=UTC)),
            ("90d", datetime(2025, 12, 3, tzinfo=UTC)),
        ],
    )
    def test_the_last_slot_is_nows(self, db: None, key: str, start: datetime) -> None:
        slots = read_trends(SPANS[key], now=NOW).slots
        assert slots[0].start == start
        assert slots[-1].start <= NOW < slots[-1].end

    def test_hours_of_one_day_are_added_up(self, db: None) -> None:
        hour_row(datetime(2026, 3, 1, 5, tzinfo=UTC), holds={"stop": {"count": 2, "total_s": 0.5}})
        hour_row(datetime(2026, 3, 1, 23, tzinfo=UTC), streams=3, holds={"stop": {"count": 1, "total_s": 1.0}})
        day = read_trends(SPANS["30d"], now=NOW).slots[-2]
        assert (day.streams, day.ends, day.count("total")) == (4, {"eos": 4}, 4)
        assert (day.held, day.held_s) == ({"stop": 3}, {"stop": 1.5})
        assert day.percentile("total", 50) == pytest.approx(2.0, rel=0.09)
        assert day.percentile("tpot", 50) is None

    def test_models_are_told_apart(self, db: None, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        hour_row(NOW.replace(minute=0), "one", streams=2)
        hour_row(NOW.replace(minute=0), "other", streams=5)
        with django_assert_num_queries(1):
            trends = read_trends(SPANS["24h"], now=NOW, model="one")
        assert {name: totals.streams for name, totals in trends.models.items()} == {"one": 2, "other": 5}
        assert trends.slots[-1].streams == 2


class TestPage:
    def test_stranger_is_sent_to_the_login(self, client: Client, db: None) -> None:
        assert client.get(PAGE).url == f"/admin/login/?next={PAGE}"

    def test_staff_without_the_permission_is_refused(self, staff_client: Callable[..., Client]) -> None:
        assert staff_client().get(PAGE).status_code == 403

    def test_page_says_so_when_there_is_nothing(self, staff_client: Callable[..., Client]) -> None:
        page = staff_client("view_stream").get(PAGE, {"span": "nonsense", "model": "<b>no such model"})
        text = page.content.decode()
        assert "0 streams counted" in text
        assert text.count("Nothing in this time.") == 5
        assert "<b>no such" not in text

    def test_the_name_of_a_model_is_only_text(
        self, staff_client: Callable[..., Client], page_structure: Callable[[str], object], payload: str
    ) -> None:
        client = staff_client("view_stream")
        pages = []
        for model in ("plain", payload.replace("\x00", "")[:200]):
            StreamHour.objects.all().delete()
            hour_row(hour_of(timezone.now()), model)
            pages.append(page_structure(client.get(PAGE, {"model": model}).content.decode()))
        assert pages[0] == pages[1]

    def test_every_number_is_in_a_table_and_leads_to_its_streams(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        hour = hour_of(timezone.now())
        held = {"utf8": {"count": 2, "size": 4, "total_s": 0.5, "longest_s": 0.3}}
        kept = make_stream(started_at=hour, total_s=2.0, ttft_visible_s=0.25, tpot_s=0.02, holds=held, model="a&b")
        make_stream(started_at=hour, stop_reason="timeout", state="failed", total_s=9.0, model="other")
        make_stream(started_at=hour - timedelta(hours=2), total_s=1.0, model="a&b")
        rebuild()
        client = staff_client("view_stream")
        text = client.get(PAGE, {"model": "a&b"}).content.decode()
        assert "2 streams counted" in text
        earlier, this = f"{hour - timedelta(hours=2):%Y-%m-%d %H:00}", f"{hour:%Y-%m-%d %H:00}"
        _, ttft, tpot, total, ends, holds = tables(text)
        assert [row[:2] for row in (*ttft, *tpot)] == [[this, "1"]] * 2
        assert [row[:2] for row in total] == [[earlier, "1"], [this, "1"]]
        # The middle of the bucket, on all three percentiles of one stream.
        assert ttft[0][2:] == [seconds(edge_s(bucket_of(0.25) + 0.5))] * 3
        assert ends == [[earlier, "1"], [this, "1"]]
        assert holds == [[this, "500 ms in 2", "–", "–"]]
        (address,) = {a for a in addresses(text) if f"started_at__gte={hour:%Y-%m-%dT%H}" in a}
        assert parse_qs(urlsplit(address).query)["model"] == ["a&b"]
        listed = client.get(address).content.decode()
        assert re.findall(r"/admin/generation/stream/(\d+)/change/", listed) == [str(kept.pk)]

    def test_models_are_compared_over_the_span(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        now = timezone.now()
        make_stream(started_at=now, total_s=2.0, model="one")
        make_stream(started_at=now, state="failed", stop_reason="timeout", model="other")
        rebuild()
        rows = tables(staff_client("view_stream").get(PAGE).content.decode())[0]
        assert [(row[0], row[1], row[-1]) for row in rows] == [
            ("one", "1", "0 (0.0 %)"),
            ("other", "1", "1 (100.0 %)"),
        ]


def tables(text: str) -> list[list[list[str]]]:
    return [
        [
            [html.unescape(re.sub("<[^>]+>", "", cell)).strip() for cell in re.findall("<t[hd].*?</t[hd]>", row, re.S)]
            for row in re.findall("<tr>.*?</tr>", body, re.S)
        ]
        for body in re.findall("<tbody>.*?</tbody>", text, re.S)
    ]


def addresses(text: str) -> set[str]:
    return {html.unescape(address) for address in re.findall(r'href="(/admin/generation/stream/\?[^"]+)"', text)}
