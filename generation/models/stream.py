"""The record of a generation, and its deltas.

Rows only: reads chain in `querysets`, the write paths are `recording.opening` (running), `recording.writer` (batches,
ends) and `recording.reaper` (lost ones). Zero is a value; null means "does not apply" or "not known".
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from generation.fields import DeltasField, LosslessJSONField, LosslessTextField
from generation.models.api_key import ApiKey
from generation.models.conversation import Conversation, Message
from generation.models.worker import Worker
from generation.output import EndedBy, FinishReason, HoldCause, StopReason
from generation.querysets import StreamQuerySet

#: What the filters of slow streams begin at; the conditions of their indexes.
SLOW_TTFT = Q(ttft_visible_s__gte=1.0)
LONG_GAP = Q(icl_max_s__gte=1.0)
HOLD_CAUSES = tuple(cause.value for cause in HoldCause)


def choices(values: type[FinishReason] | type[StopReason] | type[EndedBy]) -> list[tuple[str, str]]:
    """Django choices of a closed set of words."""
    return [(value.value, value.value.replace("_", " ")) for value in values]


class Stream(models.Model):
    """One generation from request to end, with every figure in a column of its own (docs/metrics.md defines each).

    The row is written as ``running`` before the first byte. Durations are float seconds of one monotonic clock.
    """

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        STOPPED = "stopped"
        FAILED = "failed"
        LOST = "lost"

    # Who and what.
    wire_id = models.CharField(max_length=64)
    choice = models.PositiveSmallIntegerField(default=0, help_text="Which of the request's n answers this is, from 0.")
    endpoint = models.CharField(max_length=16, default="chat", help_text="The form of the answer: chat or completions.")
    client_stream_id = models.UUIDField(null=True, blank=True, unique=True)
    conversation = models.ForeignKey(
        Conversation, null=True, blank=True, on_delete=models.SET_NULL, related_name="streams"
    )
    message = models.OneToOneField(Message, null=True, blank=True, on_delete=models.SET_NULL, related_name="stream")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="streams"
    )
    session_key = models.CharField(max_length=40, blank=True)
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="streams")
    worker = models.ForeignKey(Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="streams")
    source = models.CharField(max_length=16, help_text="Where the request came from: api, page, command or replay.")
    model = models.CharField(max_length=200)
    backend = models.CharField(max_length=100)
    parameters = LosslessJSONField(default=dict)
    messages = LosslessJSONField(default=list)
    client_address_class = models.CharField(max_length=16, blank=True, help_text="loopback, private or public.")
    include_usage = models.BooleanField(default=False, help_text="Whether the stream's last frame told the tokens.")
    upstream_id = models.CharField(max_length=200, blank=True, help_text="The id that the upstream gave its answer.")

    # State.
    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    finish_reason = models.CharField(max_length=16, null=True, blank=True, choices=choices(FinishReason))  # noqa: DJ001
    stop_reason = models.CharField(max_length=24, null=True, blank=True, choices=choices(StopReason))  # noqa: DJ001
    stop_string = LosslessTextField(null=True, blank=True, help_text="Null: none matched.")
    ended_by = models.CharField(max_length=8, null=True, blank=True, choices=choices(EndedBy))  # noqa: DJ001
    error = LosslessTextField(blank=True)
    error_body = LosslessJSONField(null=True, blank=True, help_text="The error object that was sent, if one was.")
    log_incomplete = models.BooleanField(default=False)

    # Text.
    text = LosslessTextField(blank=True)
    has_text = models.BooleanField(default=True, help_text="Off: text was not stored, or has been deleted.")
    tool_calls = LosslessJSONField(null=True, blank=True, help_text="The whole tool calls, as OpenAI's JSON.")
    seen_chars = models.PositiveIntegerField(null=True, blank=True)
    proof = models.CharField(max_length=24, null=True, blank=True)  # noqa: DJ001
    text_sha256 = models.CharField(max_length=64, blank=True)
    reference_sha256 = models.CharField(max_length=64, blank=True)

    # Figures.
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    queue_s = models.FloatField(null=True, blank=True)
    prefill_s = models.FloatField(null=True, blank=True)
    ttft_model_s = models.FloatField(null=True, blank=True)
    ttft_visible_s = models.FloatField(null=True, blank=True)
    icl_p50_s = models.FloatField(null=True, blank=True)
    icl_p95_s = models.FloatField(null=True, blank=True)
    icl_max_s = models.FloatField(null=True, blank=True)
    itl_p50_s = models.FloatField(null=True, blank=True)
    itl_p95_s = models.FloatField(null=True, blank=True)
    itl_max_s = models.FloatField(null=True, blank=True)
    tpot_s = models.FloatField(null=True, blank=True)
    total_s = models.FloatField(null=True, blank=True)
    abort_latency_s = models.FloatField(null=True, blank=True)
    prompt_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_tokens = models.PositiveIntegerField(
        null=True, blank=True, help_text="Prompt tokens that were there from earlier sequences."
    )
    completion_tokens = models.PositiveIntegerField(null=True, blank=True)
    wasted_tokens = models.PositiveIntegerField(null=True, blank=True)
    delta_count = models.PositiveIntegerField(default=0)
    holds = models.JSONField(default=dict, help_text="Per cause: count, size, total_s, longest_s.")
    token_ids = models.JSONField(null=True, blank=True)
    token_offsets = models.JSONField(null=True, blank=True, help_text="Seconds since the request, one per token.")

    objects = StreamQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("view_stream_content", "Can see the text of streams"),
            ("annotate_stream", "Can label and comment on streams"),
            ("export_stream", "Can export streams"),
            ("stop_stream", "Can stop running streams"),
            ("purge_stream", "Can delete the text of streams"),
        ]
        indexes = [
            models.Index(fields=["worker"], condition=Q(state="running"), name="stream_running_by_worker"),
            models.Index(fields=["-started_at"], name="stream_newest"),
            models.Index(fields=["proof", "-id"], condition=Q(proof__isnull=False), name="stream_by_proof"),
            models.Index(fields=["state", "-id"], name="stream_by_state"),
            # By the reason that open streams lack, not by their state: SQLite uses an index with a condition only for
            # a query that holds the same condition, and a bound value is none.
            models.Index(
                fields=["user", "api_key", "session_key"],
                condition=Q(stop_reason__isnull=True),
                name="stream_open_by_owner",
            ),
            # Covering: a day's tokens of a key are summed before each of its requests.
            models.Index(
                fields=["api_key", "started_at", "prompt_tokens", "completion_tokens"],
                condition=Q(api_key__isnull=False),
                name="stream_tokens_by_key",
            ),
            models.Index(fields=["model", "-id"], name="stream_by_model"),
            models.Index(fields=["backend", "-id"], name="stream_by_backend"),
            models.Index(fields=["source", "-id"], name="stream_by_source"),
            models.Index(fields=["stop_reason", "-id"], name="stream_by_stop_reason"),
            models.Index(fields=["ended_by", "-id"], name="stream_by_ended_by"),
            # Of the few that staff look for only: an index costs every stream that is in it.
            models.Index(fields=["-id", "ttft_visible_s"], condition=SLOW_TTFT, name="stream_slow_ttft"),
            models.Index(fields=["-id", "icl_max_s"], condition=LONG_GAP, name="stream_long_gap"),
            *(
                models.Index(fields=["-id"], condition=Q(holds__has_key=cause), name=f"stream_held_{cause}")
                for cause in HOLD_CAUSES
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="running", stop_reason__isnull=True)
                | (~Q(state="running") & Q(stop_reason__isnull=False)),
                name="stream_ends_with_a_reason",
            ),
            models.UniqueConstraint(fields=["wire_id", "choice"], name="stream_once_per_choice"),
        ]

    def __str__(self) -> str:
        return f"stream {self.pk}"

    @property
    def shown_text(self) -> str:
        """The text so far: stored whole at the end, joined from the deltas while the stream runs."""
        if self.state != self.State.RUNNING:
            return str(self.text)
        return "".join(delta["text"] for batch in self.batches.all() for delta in batch.deltas)

    @property
    def shown_end(self) -> dict[str, str | float | None]:
        """How it ended and how fast it was, as the page's renderer takes it."""
        return {
            "state": self.state,
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "ttft_visible_s": self.ttft_visible_s,
            "total_s": self.total_s,
            "tokens": self.completion_tokens,
            "tokens_per_s": self.tokens_per_s,
        }

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed: tokens after the first, per second; null for fewer than two tokens."""
        return 1 / self.tpot_s if self.tpot_s else None

    @property
    def unseen_chars(self) -> int | None:
        """Characters sent that the reader had not been shown when it left."""
        return None if self.seen_chars is None else max(0, len(self.text) - self.seen_chars)


class DeltaBatch(models.Model):
    """Consecutive deltas of one stream, appended at most every 250 ms; never changed afterwards.

    ``deltas`` is a list of ``{"text", "first_token", "end_token", "made_s", "sent_s", "holds": [{"cause", "size",
    "held_s"}]}``; ``made_s`` and ``sent_s`` are seconds since the request was received (``made_s`` may be null). Where
    there are any, ``logprobs`` is a list of ``{"text", "bytes" (hex), "logprob", "top"}`` and ``tool_calls`` one of
    ``{"index", "id", "name", "arguments"}``.
    In the database they lie in columns (`delta_columns`).
    The first delta's sequence number is ``first_seq`` (from 1, without gaps).
    """

    # The unique constraint's index finds the batches of a stream; another would double what each batch writes.
    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="batches", db_index=False)
    first_seq = models.PositiveIntegerField()
    deltas = DeltasField()

    class Meta:
        ordering = ["first_seq"]
        constraints = [
            models.UniqueConstraint(fields=["stream", "first_seq"], name="delta_batch_once"),
            models.CheckConstraint(condition=Q(first_seq__gte=1), name="delta_batch_from_one"),
        ]

    def __str__(self) -> str:
        return f"deltas from {self.first_seq} of stream {self.stream_id}"
