"""Tenants whose limits end in the middle of an answer."""

from collections.abc import Mapping
from typing import Any

HELD = 150
MOST_DEBT = 250
# At 0.60 a million, 50 output tokens and their prompt fit once.
BUDGET = 0.00005


def _tenant(extend: str, *limits: Mapping[str, Any]) -> dict[str, Any]:
    policy = {"reserve_policy": "estimate", "extend_policy": extend}
    return {"plan": "counted", "policy": policy, "limits": list(limits)}


# One token flows back a day: nothing, for a test. The ids replace those of the plan.
_BUCKET = {"id": "tokens", "resource": "tokens", "rate": "1/day", "burst": HELD}
QUOTA_TENANTS = {
    "stopping": _tenant("stop", _BUCKET),
    "stopping-grpc": _tenant("stop", _BUCKET),
    "explained-stop": _tenant("stop", _BUCKET),
    "owing": _tenant("debt", {**_BUCKET, "max_debt": MOST_DEBT}),
    "paying": _tenant(
        "stop", {"id": "budget", "resource": "cost", "limit": BUDGET, "window": "month"}
    ),
}
