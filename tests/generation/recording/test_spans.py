"""Spans made with the real SDK, kept by its in-memory exporter, or sent to a collector over a socket."""

from __future__ import annotations

import asyncio
import http.server
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from generation.exceptions import GenerationError
from generation.recording import get_writer
from generation.recording.spans import use_tracer_provider
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from generation.streaming import Origin, begin
from tests.live_server import ROOT, live_server
from tests.sse_client import chat

SECRET = "a secret in the prompt"


@pytest.fixture
def exporter():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracer_provider(provider)
    yield exporter
    use_tracer_provider(None)


def request(model: str = "scripted", **changes) -> GenerationRequest:
    return GenerationRequest(model=model, messages=(ChatMessage(role="user", content=SECRET),), **changes)


async def read(asked: GenerationRequest) -> int:
    generation = await begin(asked, Origin(source="api"), received_at=time.monotonic())
    async for _ in generation:
        pass
    return generation.stream_id


@pytest.mark.django_db(transaction=True)
class TestSpan:
    async def test_it_has_the_streams_own_times_and_figures_when_the_stream_ends(self, exporter, stored):
        before = datetime.now(UTC)
        stream_id = await read(request(sampling=SamplingParams(temperature=0.5, seed=7)))
        assert get_writer().flush()
        (span,) = exporter.get_finished_spans()
        assert span.name == "chat scripted"
        attributes = dict(span.attributes)
        ttft_s = attributes.pop("gen_ai.server.time_to_first_token")
        visible_s = attributes.pop("gen_ai.response.time_to_first_chunk")
        assert 0 < ttft_s <= visible_s < 5
        assert attributes.pop("gen_ai.server.time_per_output_token") > 0
        assert attributes.pop("streamsite.queue_s") >= 0
        assert attributes.pop("gen_ai.response.id").startswith("chatcmpl-")
        assert attributes == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "streamsite",
            "gen_ai.request.model": "scripted",
            "gen_ai.response.model": "scripted",
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.seed": 7,
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.output_tokens": 4,
            "streamsite.stream_id": stream_id,
            "streamsite.stop_reason": "eos",
            "streamsite.ended_by": "model",
            "streamsite.delta_count": 4,
        }
        assert before.timestamp() * 1e9 <= span.start_time + 1000 <= span.end_time <= time.time_ns()
        assert span.status.status_code is StatusCode.UNSET

    async def test_it_is_within_the_requests_own_when_that_has_one(self, exporter):
        with trace.use_span(TracerProvider().get_tracer("server").start_span("POST")) as parent:
            await read(request())
        assert get_writer().flush()
        (span,) = exporter.get_finished_spans()
        assert span.parent.span_id == parent.get_span_context().span_id

    async def test_it_is_an_error_of_a_named_type_without_any_text_when_the_stream_failed(self, exporter):
        with pytest.raises(GenerationError):
            await read(request("scripted-failing"))
        assert get_writer().flush()
        (span,) = exporter.get_finished_spans()
        assert (span.attributes["error.type"], span.status.status_code) == ("engine_error", StatusCode.ERROR)
        assert "gen_ai.response.finish_reasons" not in span.attributes
        assert "one" not in span.to_json().split()
        assert SECRET not in span.to_json()

    async def test_it_ends_where_the_reader_left(self, exporter):
        generation = await begin(request("scripted-slow"), Origin(source="api"), received_at=time.monotonic())
        await anext(generation)
        generation.close()
        left_at = time.time_ns()
        # The writer comes later; the two clocks between which a span's times are carried over part by microseconds.
        await asyncio.sleep(0.05)
        assert get_writer().flush()
        (span,) = exporter.get_finished_spans()
        assert span.end_time < left_at + 25_000_000
        assert span.attributes["streamsite.stop_reason"] == "client_disconnect"
        assert span.status.status_code is StatusCode.UNSET


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the spans that are sent to it, as OTLP over HTTP."""

    spans: list = []
    came = threading.Event()

    def do_POST(self) -> None:
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in sent.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.spans += [(names["service.name"], span) for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()
        self.came.set()

    def log_message(self, *arguments) -> None: ...


@pytest.mark.servers
async def test_spans_are_sent_to_the_collector_that_the_variables_name(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever).start()
        try:
            address = f"http://127.0.0.1:{collector.server_port}"
            with live_server(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_BSP_SCHEDULE_DELAY="50") as server:
                async with await chat(server.base_url) as response:
                    await response.chunks()
                assert Collector.came.wait(20)
        finally:
            collector.shutdown()
    ((service, span),) = Collector.spans
    assert (service, span.name) == ("streamsite", "chat scripted")
    assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 10e9


SET_UP = """
import sys
import django
django.setup()
from generation.recording import set_up_spans, spans
{before}
set_up_spans()
print(spans._tracer is not None, any(name.startswith("opentelemetry") for name in sys.modules))
"""


@pytest.mark.parametrize(
    ("variables", "before", "printed", "said"),
    [
        ({}, "", "False False", ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, "", "False False", ""),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, "", "False False", ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "", "False False", "'zipkin'; it must be otlp or none"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "", "True True", ""),
        (
            {"OTEL_TRACES_EXPORTER": "otlp"},
            "sys.modules['opentelemetry'] = None",
            "False True",
            "pip install -r requirements-otel.txt",
        ),
    ],
    ids=["not asked for", "none", "disabled", "another exporter", "asked for", "packages missing"],
)
def test_spans_are_made_only_when_the_variables_ask_for_them(variables, before, printed, said):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    result = subprocess.run(
        [sys.executable, "-c", SET_UP.format(before=before)],
        cwd=ROOT,
        env={**environment, "DJANGO_SETTINGS_MODULE": "tests.settings", **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.strip() == printed, result.stderr
    assert said in result.stderr
    assert bool(said) == bool(result.stderr)
