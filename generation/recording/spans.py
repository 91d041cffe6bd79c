"""One OpenTelemetry span for each stream, by the conventions for generative AI; only where OTEL_* variables ask for it.

In: what was asked, when a stream opens; the columns of its end, in the writer thread. Out: a span with the stream's own
times, figures and reasons, and never its text. Without the packages of requirements-otel.txt there are none, and
without the variables nothing of those packages is imported.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from generation.request import GenerationRequest

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

logger = logging.getLogger(__name__)

_NS = 1_000_000_000
#: Any of them asks for spans; the SDK reads these and the other variables itself.
_ASKING = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: Attributes by the column that they are.
_OF_COLUMNS = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "ttft_model_s": "gen_ai.server.time_to_first_token",
    "ttft_visible_s": "gen_ai.response.time_to_first_chunk",
    "tpot_s": "gen_ai.server.time_per_output_token",
    "queue_s": "streamsite.queue_s",
    "stop_reason": "streamsite.stop_reason",
    "ended_by": "streamsite.ended_by",
    "delta_count": "streamsite.delta_count",
}


class StreamSpan:
    """The span of one open stream; `end` is called once, with the columns of its end."""

    def __init__(self, span: Span, started_ns: int) -> None:
        self._span = span
        self._started_ns = started_ns

    def end(self, columns: Mapping[str, Any]) -> None:
        """End it when the stream did. Never raises."""
        try:
            self._end(columns)
        except Exception:
            logger.exception("The span of a stream could not be ended.")

    def _end(self, columns: Mapping[str, Any]) -> None:
        from opentelemetry.trace import Status, StatusCode

        known = {name: columns.get(column) for column, name in _OF_COLUMNS.items()}
        self._span.set_attributes({name: value for name, value in known.items() if value is not None})
        if columns.get("finish_reason"):
            self._span.set_attribute("gen_ai.response.finish_reasons", [columns["finish_reason"]])
        if columns["state"] == "failed":
            # Without the message: an upstream's may quote the prompt.
            self._span.set_attribute("error.type", columns["stop_reason"])
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end(self._started_ns + int(columns["ended_after_s"] * _NS))


def start_span(
    request: GenerationRequest, *, wire_id: str, stream_id: int, provider: str, started_at: datetime
) -> StreamSpan | None:
    """Begin a stream's span, within the caller's if there is one; None where no spans are made. Never raises."""
    tracer = _tracer
    if tracer is None:
        return None
    try:
        return _start(tracer, request, wire_id, stream_id, provider, started_at)
    except Exception:
        logger.exception("The span of a stream could not be started.")
        return None


def _start(
    tracer: Tracer, request: GenerationRequest, wire_id: str, stream_id: int, provider: str, started_at: datetime
) -> StreamSpan:
    from opentelemetry.trace import SpanKind

    operation = "chat" if request.endpoint == "chat" else "text_completion"
    sampling = request.sampling
    asked = {
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k,
        "gen_ai.request.presence_penalty": sampling.presence_penalty,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.choice.count": request.n if request.n > 1 else None,
    }
    started_ns = int(started_at.timestamp() * _NS)
    span = tracer.start_span(
        f"{operation} {request.model}",
        kind=SpanKind.CLIENT,
        start_time=started_ns,
        attributes={
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": request.model,
            "gen_ai.response.model": request.model,
            "gen_ai.response.id": wire_id,
            "streamsite.stream_id": stream_id,
            **{name: value for name, value in asked.items() if value is not None},
        },
    )
    return StreamSpan(span, started_ns)


def use_tracer_provider(provider: TracerProvider | None) -> None:
    """Make the spans of this process with this provider from now on; with None, make none."""
    global _tracer, _is_set_up
    _tracer = None if provider is None else provider.get_tracer("streamsite")
    _is_set_up = True


def set_up_spans() -> None:
    """Make spans from now on if the environment or a program around this one asks for them. Blocks; idempotent."""
    with _set_up_lock:
        if not _is_set_up:
            use_tracer_provider(_wanted_provider())


def _wanted_provider() -> TracerProvider | None:
    if "opentelemetry.sdk.trace" in sys.modules:
        # The program around this one (opentelemetry-instrument) has set tracing up.
        from opentelemetry.sdk.trace import TracerProvider as SdkProvider
        from opentelemetry.trace import get_tracer_provider

        if isinstance(provider := get_tracer_provider(), SdkProvider):
            return provider
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "")
    is_off = exporter == "none" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not any(os.environ.get(name) for name in _ASKING):
        return None
    if exporter not in {"", "otlp"}:
        logger.error("OTEL_TRACES_EXPORTER is %r; it must be otlp or none. No spans are made.", exporter)
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider as SdkProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.error("OTEL_* variables ask for spans, whose packages are missing: pip install -r requirements-otel.txt")
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", "streamsite")
    provider = SdkProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


_tracer: Tracer | None = None
_is_set_up = False
_set_up_lock = threading.Lock()
