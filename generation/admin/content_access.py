"""Who may see what people and models wrote, and the log of who did.

A view of a stream's text, or of a conversation's, is one log entry for each user, record and hour, however many ranges
of it were read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
    from django.db.models import Model


#: Django's flags end at 3 (deletion); a view is none of them.
VIEWED = 4
VIEWED_TEXT = "Viewed the text."
LOGGED_ONCE_IN = timedelta(hours=1)


def may_view_content(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether this user may see text, frames, tokens and requests of streams."""
    return bool(user.has_perm("generation.view_stream_content"))  # type: ignore[union-attr]  # staff have permissions


def note_content_view(user: AbstractBaseUser | AnonymousUser, record: Model) -> None:
    """Log that this user, who is logged in, saw the record's text, unless that was logged within the hour."""
    user_id = int(user.pk or 0)
    content_type = ContentType.objects.get_for_model(record)
    seen = LogEntry.objects.filter(
        user_id=user_id,
        content_type=content_type,
        object_id=str(record.pk),
        action_flag=VIEWED,
        action_time__gt=timezone.now() - LOGGED_ONCE_IN,
    )
    if not seen.exists():
        LogEntry.objects.create(
            user_id=user_id,
            content_type=content_type,
            object_id=str(record.pk),
            object_repr=str(record)[:200],
            action_flag=VIEWED,
            change_message=VIEWED_TEXT,
        )
