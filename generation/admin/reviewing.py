"""The write path of reviews: what staff sent in, an appended `Review` row out. Nothing changes or deletes one.

A review has a label, a score or a comment, or several of them, on the whole stream or on a range of its deltas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.utils.safestring import SafeString

from generation.admin.visible import visible_html, visible_line
from generation.models import Review, Stream

MAX_COMMENT = 4000


class ReviewForm(forms.Form):
    """What a review may hold."""

    label = forms.CharField(required=False, max_length=40)
    score = forms.IntegerField(required=False, min_value=1, max_value=5)
    comment = forms.CharField(required=False, max_length=MAX_COMMENT)
    first_seq = forms.IntegerField(required=False, min_value=1)
    last_seq = forms.IntegerField(required=False, min_value=1)

    def __init__(self, data: Any, *, delta_count: int | None) -> None:
        super().__init__(data)
        self._delta_count = delta_count

    def clean_label(self) -> str:
        label = str(self.cleaned_data["label"])
        if label and label not in settings.STREAMSITE_REVIEW_LABELS:
            labels = ", ".join(settings.STREAMSITE_REVIEW_LABELS)
            raise forms.ValidationError(f"There is no label {label!r}. Labels here: {labels}.")
        return label

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return values
        if not (values["label"] or values["score"] or values["comment"]):
            raise forms.ValidationError("A review needs a label, a score or a comment.")
        first, last = values["first_seq"], values["last_seq"]
        if (first is None) != (last is None) or (first or 0) > (last or 0):
            raise forms.ValidationError("A range of deltas needs a first and a last one, in this order.")
        if last is not None and self._delta_count is not None and last > self._delta_count:
            raise forms.ValidationError(f"The stream has {self._delta_count} deltas; the range ends at {last}.")
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReview:
    """A review as the stream's page lists it; ``comment`` is None where there is one that is not to be shown."""

    review: Review
    reviewer: str
    label: str
    comment: SafeString | None
    about: str


def append_review(form: ReviewForm, *, stream: Stream, reviewer_id: int) -> Review:
    """Write the row of a valid form."""
    return Review.objects.create(stream=stream, reviewer_id=reviewer_id, **form.cleaned_data)


def shown_reviews(stream: Stream, *, comments: bool) -> list[ShownReview]:
    """All reviews of a stream, the newest first, in one query; ``comments``, which may quote the text, on request."""
    return [
        ShownReview(
            review=review,
            reviewer=visible_line(review.reviewer.get_username()) if review.reviewer else "a deleted user",
            label=visible_line(review.label),
            comment=visible_html(review.comment, whitespace=False) if comments or not review.comment else None,
            about=range_of(review),
        )
        for review in stream.reviews.select_related("reviewer").order_by("-pk")
    ]


def range_of(review: Review) -> str:
    """The deltas that a review is about, in words."""
    if review.first_seq is None:
        return "whole stream"
    if review.first_seq == review.last_seq:
        return f"delta {review.first_seq}"
    return f"deltas {review.first_seq}–{review.last_seq}"
