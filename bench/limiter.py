"""`make bench-limiter`: what a decision costs, and that none is wrong (figures: bench/README.md).

Prints progress on stderr and, as its last line on stdout, one JSON object.
"""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.limiter_deployment import say
from bench.limiter_peers import peer_figures
from bench.limiter_rates import memory_figures, shared_store_figures
from bench.limiter_redis import cpu_figures, server
from bench.limiter_tenants import tenant_figures
from bench.limiter_truth import truth_figures

_NAMES = (
    "decisions_s_memory",
    "decisions_s_redis",
    "p50_ms",
    "p99_ms",
    "echo_ratio",
    "echo_ratio_multiplexed",
    "redis_script_ratio",
    "redis_script_ratio_batched",
    "over_admitted",
    "lost_units",
    "double_charges",
    "us_at_10_tenants",
    "us_at_10000_tenants",
    "bytes_per_tenant",
)
_PART_S = 120.0


async def main() -> None:
    """Measures part after part; a part that fails leaves its figures null."""
    figures: dict[str, object] = dict.fromkeys(_NAMES)
    figures["peers"] = {"envoy": None, "litellm": None}
    with TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        figures |= await _part("memory", memory_figures(folder / "memory"))
        with server(folder / "valkey") as running:
            shared = shared_store_figures(folder / "shared", running.url)
            figures |= await _part("redis", shared)
            figures |= await _part("redis CPU", cpu_figures(folder / "cpu", running))
        figures |= await _part("truth", truth_figures(folder / "truth"))
        figures |= await _part("tenants", tenant_figures())
        figures |= await _part("peers", peer_figures(folder / "envoy"))
    print(json.dumps(figures))


async def _part(name: str, work: Awaitable[dict[str, object]]) -> dict[str, object]:
    try:
        async with asyncio.timeout(_PART_S):
            return await work
    except Exception as error:
        say(f"{name} could not be measured: {type(error).__name__}: {error}")
        return {}


if __name__ == "__main__":
    asyncio.run(main())
