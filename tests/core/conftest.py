import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from weir_core.telemetry.context import bind_request
from weir_core.telemetry.logs import setup_logs


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    """Where the logs of this test go, set up as `weir-test`; undone afterwards."""
    stream = io.StringIO()
    before = logging.getLogger().handlers[:]
    setup_logs("weir-test", stream=stream)
    yield stream
    bind_request(request_id="", tenant_id="")
    logging.getLogger().handlers[:] = before
    structlog.reset_defaults()
