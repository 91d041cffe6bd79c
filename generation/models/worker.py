"""The processes that run streams."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from generation.querysets import WorkerQuerySet


class Worker(models.Model):
    """A process that runs streams; it beats by the database's clock, so that its death is seen by others."""

    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now(), db_index=True)
    hostname = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()

    objects = WorkerQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.hostname}:{self.pid}"
