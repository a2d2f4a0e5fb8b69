"""A tenant with targets and few requests: what it does shows in every part of the metrics."""

from typing import Any

REQUESTS = 12
MEASURED: dict[str, Any] = {
    "plan": "counted",
    "policy": {"slo": {"ttft_ms": 60_000, "itl_ms": 60_000, "e2e_ms": 60_000}},
    # One flows back a day: nothing, for a test. The id replaces that of the plan.
    "limits": [{"id": "requests", "resource": "requests", "rate": "1/day", "burst": REQUESTS}],
}
