"""What the gateway tells of requests that go wrong, although nobody asked it to record them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.telemetry import names
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing


@asynccontextmanager
async def seen(
    folder: Path, ratio: float, **settings: Any
) -> AsyncIterator[tuple[Gateway, InMemorySpanExporter]]:
    """A gateway that records that share of its traces."""
    spans = InMemorySpanExporter()
    tracing = Tracing("gateway", processor=SimpleSpanProcessor(spans), sample_ratio=ratio)
    telemetry = Telemetry(tracing, create_registry())
    async with running_gateway(folder, telemetry=telemetry, **settings) as gateway:
        yield gateway, spans
    tracing.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name.split(" ")[0] == name]


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_lost_attempt_is_told_although_another_one_answered(tmp_path: Path) -> None:
    async with seen(tmp_path, 0.0, workers=2) as (gateway, spans):
        gateway.worker.script = Script(pause_after=0)
        gateway.workers[1].script = Script(finish=FinishReason.FINISH_REASON_STOP)
        task = asyncio.create_task(gateway.chat())
        await eventually(lambda: gateway.worker.running)
        gateway.worker.drop_streams()
        assert (await task).status_code == 200
        await eventually(lambda: named(spans, "chat"))
        (root,) = named(spans, "chat")
        lost, answered = named(spans, "attempt")
        assert [told(each)[names.ATTEMPT] for each in (lost, answered)] == [1, 2]
        assert told(lost)[names.REASON] == told(lost)[names.ERROR_TYPE] == "WORKER_LOST"
        assert lost.status.status_code is StatusCode.ERROR
        assert answered.status.status_code is root.status.status_code is StatusCode.UNSET
        assert told(answered)[names.WORKER_ID] == "worker-1"
        for attempt in (lost, answered):
            assert attempt.parent is not None
            assert attempt.parent.span_id == root.context.span_id
            sent = gateway.workers[told(attempt)[names.ATTEMPT] - 1].specs[-1].trace.traceparent
            assert sent.split("-")[2] == f"{attempt.context.span_id:016x}"
        moments = [event.name for event in root.events]
        assert moments[:2] == ["arrived", "reserved"]
        assert {"requeued", "first_token", "ended", "settled"} <= set(moments)
        # A request that nothing happened to stays unseen.
        spans.clear()
        gateway.worker.script = Script()
        assert (await gateway.chat()).status_code == 200
        await gateway.at_rest()
        assert spans.get_finished_spans() == ()


async def test_a_settlement_that_comes_late_is_in_the_trace_of_its_request(tmp_path: Path) -> None:
    async with seen(tmp_path, 1.0) as (gateway, spans):
        gateway.worker.script = Script(pause_after=2)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=5))
        await eventually(lambda: gateway.scheduler.first_tokens)
        await gateway.limiter.server.stop()
        gateway.worker.resume.set()
        assert (await task).status_code == 200
        draining = asyncio.create_task(gateway.app.drain())
        await gateway.limiter.server.start()
        await draining
        (root,), (settle,) = named(spans, "chat"), named(spans, "settle")
        late = named(spans, "settle_late")
        assert late[-1].status.status_code is StatusCode.UNSET
        for each in late:
            assert each.context.trace_id == root.context.trace_id
            assert each.parent is not None
            assert each.parent.span_id == settle.context.span_id
            assert each.resource.attributes[names.TENANT_ID] == "acme"


async def test_a_clients_name_of_its_conversation_is_not_told(tmp_path: Path) -> None:
    async with seen(tmp_path, 1.0) as (gateway, spans):
        assert (await gateway.chat(conversation_id="case of Mrs X")).status_code == 200
        await eventually(lambda: named(spans, "chat"))
        assert "Mrs X" not in "".join(span.to_json() for span in spans.get_finished_spans())
