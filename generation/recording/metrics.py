"""What a monitoring system scrapes: the figures of ended streams as Prometheus metrics, named after OpenTelemetry's.

In: the columns of a stream's end, once per stream, from the writer thread. The buckets are those of OpenTelemetry's
generative AI conventions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Histogram

TTFT = Histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "Request received to first token made.",
    ["gen_ai_request_model"],
    buckets=(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
TPOT = Histogram(
    "gen_ai_server_time_per_output_token_seconds",
    "Time per output token after the first.",
    ["gen_ai_request_model"],
    buckets=(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
)
DURATION = Histogram(
    "gen_ai_server_request_duration_seconds",
    "Request received to last frame.",
    ["gen_ai_request_model"],
    buckets=tuple(0.01 * 2**power for power in range(14)),
)
ENDS = Counter("streamsite_streams_ended", "Streams that ended, by reason.", ["gen_ai_request_model", "stop_reason"])
PROOFS = Counter(
    "streamsite_proofs", "Stored proofs: joined deltas against the whole decode of the ids, by verdict.", ["verdict"]
)

_HISTOGRAMS = {"ttft_model_s": TTFT, "tpot_s": TPOT, "total_s": DURATION}


def count_end(model: str, columns: Mapping[str, Any]) -> None:
    """Count one ended stream; a figure that does not apply is not observed."""
    ENDS.labels(model, columns["stop_reason"]).inc()
    for name, histogram in _HISTOGRAMS.items():
        if columns.get(name) is not None:
            histogram.labels(model).observe(columns[name])
    if columns.get("proof") is not None:
        PROOFS.labels(columns["proof"]).inc()
