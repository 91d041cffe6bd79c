from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from generation.admin.joined_check import joined_text
from generation.models import ApiKey, Review, Stream
from generation.output import StopReason
from generation.recording.latency import state_of
from generation.stream_search import StreamsFound


@pytest.mark.django_db(transaction=True)
def test_copies_of_real_runs_are_written_when_streams_are_seeded() -> None:
    out = StringIO()
    call_command("seed_demo_streams", count=200, days=2.0, stdout=out)
    assert out.getvalue().startswith("200 streams in ")
    streams = list(Stream.objects.order_by("-pk")[:200][::-1])
    assert Stream.objects.count() == 211
    assert {(each.state, each.stop_reason) for each in streams} == {
        (state_of(reason), reason)
        for reason in (
            StopReason.EOS, StopReason.LENGTH, StopReason.STOP_STRING, StopReason.CLIENT_STOP,
            StopReason.CLIENT_DISCONNECT, StopReason.ENGINE_ERROR,
        )
    }  # fmt: skip
    for each in streams:
        assert joined_text(list(each.batches.values_list("first_seq", "deltas"))) == each.text
    started = [each.started_at for each in streams]
    assert started == sorted(started)
    assert timedelta(days=1, hours=23) < started[-1] - started[0] < timedelta(days=2)
    assert abs(timezone.now() - started[-1]) < timedelta(minutes=1)
    assert all(each.ended_at and each.total_s for each in streams)
    assert {each.user and each.user.is_active for each in streams} == {None, False}
    assert any((each.ttft_visible_s or 0) > 1 for each in streams)
    for word in ("letter", "monsoon"):
        assert Stream.objects.filter(StreamsFound(words=word)).exists()


@pytest.mark.django_db(transaction=True)
def test_copies_have_keys_and_labels_when_streams_are_seeded(settings: Settings) -> None:
    settings.STREAMSITE_REVIEW_LABELS = ("good", "isn't")
    call_command("seed_demo_streams", count=200, days=2.0, stdout=StringIO())
    by_key = Stream.objects.filter(api_key__isnull=False)
    assert {(each.source, each.user_id == each.api_key.user_id) for each in by_key if each.api_key} == {("api", True)}
    assert all(key.revoked_at for key in ApiKey.objects.all())
    assert {review.label for review in Review.objects.all()} == {"good", "isn't"}
    assert Stream.objects.filter(reviews__isnull=False).count() == 200 // 23


@pytest.mark.parametrize("options", [{"count": 0}, {"days": 0.0}, {"days": 9e9}])
def test_nothing_is_written_when_the_number_makes_no_sense(options: dict[str, float]) -> None:
    with pytest.raises(CommandError, match="must be"):
        call_command("seed_demo_streams", **options)
