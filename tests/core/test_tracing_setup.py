"""The exporter of spans is loaded by the processes that use it, and by no others."""

import subprocess
import sys

import pytest

_LOADED = """
import sys
from weir_core.telemetry.tracing_setup import setup_tracing
tracing = setup_tracing("weir-x", endpoint=sys.argv[1])
print(any(name.startswith("opentelemetry.exporter") for name in sys.modules))
"""


@pytest.mark.parametrize(("endpoint", "loaded"), [("", "False"), ("http://127.0.0.1:9", "True")])
def test_without_an_endpoint_the_exporter_is_not_loaded(endpoint: str, loaded: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _LOADED, endpoint], capture_output=True, text=True, timeout=60
    )
    assert (told.stdout.strip(), told.stderr) == (loaded, "")


@pytest.mark.parametrize("service", ["weir_gateway", "weir_ratelimiter", "weir_scheduler"])
def test_no_service_loads_it_by_itself(service: str) -> None:
    code = f"import sys, {service}.__main__; print('opentelemetry.exporter' in str([*sys.modules]))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (told.stdout.strip(), told.stderr) == ("False", "")
