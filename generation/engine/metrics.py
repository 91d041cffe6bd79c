"""What a monitoring system scrapes of the engine: a few numbers a step, none a token.

Set by the engine's thread. Every metric has the alias of its backend as a label.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_LABELS = ["backend"]

SLOTS = Gauge("streamsite_engine_slots", "Sequences that can run at once.", _LABELS)
SLOTS_USED = Gauge("streamsite_engine_slots_used", "Sequences that run.", _LABELS)
QUEUE_LENGTH = Gauge("streamsite_engine_queue_length", "Sequences that wait for their turn.", _LABELS)
KV_BOUND = Gauge("streamsite_engine_kv_bound_bytes", "Most memory that keys and values take.", _LABELS)
KV_USED = Gauge("streamsite_engine_kv_used_bytes", "Memory of keys and values reserved or kept.", _LABELS)
BATCH_SIZE = Histogram(
    "streamsite_engine_batch_size", "Sequences in one step.", _LABELS, buckets=(1, 2, 4, 8, 16, 32, 64, 128)
)
STEP = Histogram(
    "streamsite_engine_step_seconds",
    "Time of one step.",
    _LABELS,
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0),
)
TOKENS = Counter("streamsite_engine_tokens", "Tokens made.", _LABELS)
PROMPT_TOKENS = Counter("streamsite_engine_prompt_tokens", "Prompt tokens computed.", _LABELS)
PREFIX_HITS = Counter("streamsite_engine_prefix_hits", "Sequences that took over computed prompt tokens.", _LABELS)
PREFIX_TOKENS = Counter("streamsite_engine_prefix_tokens", "Prompt tokens taken over, not computed.", _LABELS)
CANCELLED = Counter("streamsite_engine_cancelled", "Sequences cancelled before their end.", _LABELS)
SLOW_READERS = Counter("streamsite_engine_slow_readers", "Sequences ended because nobody read them.", _LABELS)
FAILED = Counter("streamsite_engine_failed", "Sequences ended by an error.", _LABELS)
RESTARTS = Counter("streamsite_engine_restarts", "Times the engine loaded its model again.", _LABELS)


class EngineMetrics:
    """The metrics of one engine."""

    def __init__(self, backend: str) -> None:
        self.slots = SLOTS.labels(backend)
        self.slots_used = SLOTS_USED.labels(backend)
        self.queue_length = QUEUE_LENGTH.labels(backend)
        self.kv_bound = KV_BOUND.labels(backend)
        self.kv_used = KV_USED.labels(backend)
        self.cancelled = CANCELLED.labels(backend)
        self.slow_readers = SLOW_READERS.labels(backend)
        self.failed = FAILED.labels(backend)
        self.restarts = RESTARTS.labels(backend)
        self._batch_size = BATCH_SIZE.labels(backend)
        self._step = STEP.labels(backend)
        self._tokens = TOKENS.labels(backend)
        self._prompt_tokens = PROMPT_TOKENS.labels(backend)
        self._prefix_hits = PREFIX_HITS.labels(backend)
        self._prefix_tokens = PREFIX_TOKENS.labels(backend)

    def stepped(self, *, sequences: int, tokens: int, prompt_tokens: int, took_s: float) -> None:
        """Count one step that went well."""
        self._batch_size.observe(sequences)
        self._step.observe(took_s)
        self._tokens.inc(tokens)
        self._prompt_tokens.inc(prompt_tokens)

    def joined(self, *, cached: int) -> None:
        """Count a sequence that got its memory."""
        if cached:
            self._prefix_hits.inc()
            self._prefix_tokens.inc(cached)
