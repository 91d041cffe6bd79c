from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from generation.models import Stream

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("prune_streams", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def streams() -> None:
    for number, days in enumerate([1, 40]):
        Stream.objects.create(
            wire_id=str(number), source="api", started_at=datetime.now(UTC) - timedelta(days=days), state="done",
            stop_reason="eos", text="words",
        )  # fmt: skip


@pytest.mark.usefixtures("streams")
def test_says_how_much_was_deleted():
    assert run("--older-than", "30d", "--dry-run").startswith("Would delete 1 streams and 0 conversations from before ")
    assert run("--older-than", "5w", "--text-only").startswith("Deleted the text of 1 streams and 0 conversations")
    assert sorted(Stream.objects.values_list("text", flat=True)) == ["", "words"]
    assert run("--older-than", "720h").startswith("Deleted 1 streams")
    assert Stream.objects.count() == 1


@pytest.mark.usefixtures("streams")
def test_the_setting_is_the_age_when_none_is_said(settings):
    settings.STREAMSITE_RETENTION_DAYS = 10
    assert run().startswith("Deleted 1 streams")


@pytest.mark.parametrize("age", ["30", "30m", "-1d", "d", "1.5d", ""])
def test_the_right_form_is_said_when_the_age_is_wrong(age):
    with pytest.raises(CommandError, match="12h, 30d, 8w"):
        run(f"--older-than={age}")


def test_an_age_is_asked_for_when_there_is_none():
    with pytest.raises(CommandError, match="Say --older-than"):
        run()
