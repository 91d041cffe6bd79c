"""Reads that chain: owners, states, and what the lists and players need."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

    from generation.models import Conversation, Stream, Worker  # noqa: F401  (types only)

#: A worker that missed this many heartbeats is dead.
MISSED_BEATS = 3


def owned_by(user: AbstractBaseUser | AnonymousUser, session_key: str | None) -> Q:
    """The rows of a logged-in user, or of one anonymous browser session; nobody's when there is neither."""
    if user.is_authenticated:
        return Q(user_id=user.pk)
    if session_key:
        return Q(user__isnull=True, session_key=session_key)
    return Q(pk__in=[])


class ConversationQuerySet(models.QuerySet["Conversation"]):
    """Conversations, always looked up through their owner."""

    def owned_by(self, user: AbstractBaseUser | AnonymousUser, session_key: str | None) -> Self:
        return self.filter(owned_by(user, session_key))


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Workers, by whether they still beat."""

    def dead(self) -> Self:
        """Those whose last heartbeat is too old, by the database's own clock."""
        return self.filter(heartbeat_at__lt=_last_sign_of_life())


class StreamQuerySet(models.QuerySet["Stream"]):
    """Streams, by owner and state."""

    def owned_by(self, user: AbstractBaseUser | AnonymousUser, session_key: str | None) -> Self:
        return self.filter(owned_by(user, session_key))

    def running(self) -> Self:
        return self.filter(state="running")

    def ended(self) -> Self:
        return self.exclude(state="running")

    def abandoned(self) -> Self:
        """Running streams that no process will end: their worker is dead, or its row is gone and their time is up."""
        longest = timedelta(seconds=settings.STREAMSITE_MAX_STREAM_S)
        return self.running().filter(
            Q(worker__heartbeat_at__lt=_last_sign_of_life()) | Q(worker__isnull=True, started_at__lt=Now() - longest)
        )


def _last_sign_of_life() -> models.expressions.CombinedExpression:
    return Now() - timedelta(seconds=MISSED_BEATS * settings.STREAMSITE_HEARTBEAT_S)
