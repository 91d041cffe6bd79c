"""What staff say of streams."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from generation.fields import LosslessTextField
from generation.models.stream import Stream


class Review(models.Model):
    """A label, score or comment on a stream, or on its deltas ``first_seq`` to ``last_seq``; never changed."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="reviews")
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="stream_reviews"
    )
    label = models.CharField(max_length=40, blank=True)
    score = models.SmallIntegerField(null=True, blank=True, help_text="1 (bad) to 5 (good).")
    comment = LosslessTextField(blank=True)
    first_seq = models.PositiveIntegerField(null=True, blank=True)
    last_seq = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["label", "-stream"], name="review_by_label")]
        constraints = [
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__range=(1, 5)), name="review_score_1_to_5"
            ),
            models.CheckConstraint(
                condition=Q(first_seq__isnull=True, last_seq__isnull=True)
                | Q(first_seq__gte=1, last_seq__gte=F("first_seq")),
                name="review_range_is_one",
            ),
        ]

    def __str__(self) -> str:
        return f"review {self.pk} of stream {self.stream_id}"
