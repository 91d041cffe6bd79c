"""Passes of a corpus, and the streams they made."""

from __future__ import annotations

from django.db import models

from generation.fields import LosslessTextField
from generation.models.stream import Stream


class Run(models.Model):
    """One pass of a corpus through a backend."""

    name = models.CharField(max_length=200)
    corpus = models.CharField(max_length=500)
    model = models.CharField(max_length=200)
    parameters = models.JSONField(default=dict)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"run {self.pk} of {self.corpus}"


class RunItem(models.Model):
    """One corpus item of a run, with the stream it made."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    item_id = models.CharField(max_length=200)
    stream = models.ForeignKey(Stream, null=True, blank=True, on_delete=models.SET_NULL, related_name="run_items")
    error = LosslessTextField(blank=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["run", "position"], name="run_item_once")]

    def __str__(self) -> str:
        return f"item {self.item_id} of run {self.run_id}"
