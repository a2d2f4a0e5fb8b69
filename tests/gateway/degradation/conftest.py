from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.degradation.site import with_fallbacks
from tests.gateway.harness import Gateway, running_gateway
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(
    tmp_path_factory: pytest.TempPathFactory, spans: InMemorySpanExporter
) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    tracing = Tracing("gateway", processor=SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracing=tracing, registry=create_registry())
    async with running_gateway(folder, change=with_fallbacks, telemetry=telemetry) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(shared_gateway: Gateway) -> AsyncIterator[Gateway]:
    """One gateway whose tenant allows every degradation, back to that for each test."""
    shared_gateway.reset()
    await shared_gateway.reload(shared_gateway.document)
    yield shared_gateway
    await shared_gateway.at_rest()
