"""What the streams of an hour add up to, for the trends."""

from __future__ import annotations

from django.db import models


class StreamHour(models.Model):
    """The ended streams of one model that were started in one hour, counted by `recording.trends`.

    The figures are counts per bucket (`recording.buckets`), ``{"57": 3}``; ``ends`` are counts per stop reason;
    ``holds`` are ``{"count", "total_s"}`` per cause. Deleting streams leaves their hours as they are.
    """

    hour = models.DateTimeField(help_text="When the hour began, UTC.")
    model = models.CharField(max_length=200)
    streams = models.PositiveIntegerField(default=0)
    ends = models.JSONField(default=dict)
    ttft_visible = models.JSONField(default=dict)
    ttft_model = models.JSONField(default=dict)
    tpot = models.JSONField(default=dict)
    total = models.JSONField(default=dict)
    holds = models.JSONField(default=dict)

    class Meta:
        ordering = ["hour", "model"]
        constraints = [models.UniqueConstraint(fields=["hour", "model"], name="stream_hour_once")]

    def __str__(self) -> str:
        return f"{self.model} at {self.hour:%Y-%m-%d %H:00}"
