"""What a decision costs the shared store, beside a script that only touches eight buckets.

Both are called at the same rate: a server that is called less often does less at a time, and each
call costs it more. The script is called each time by itself, and again in batches as decisions are.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import cast

import redis
import redis.asyncio as aioredis

from bench.limiter_deployment import directory, measure, ratelimiter, say, snapshot
from bench.limiter_rates import RUNS
from tests.ratelimiter.valkey import Valkey, running_valkey
from weir_ratelimiter.store.redis.batches import Batches

_CLIENTS = 32
_SECONDS = 2.0

# The same arithmetic as the account's, over as many buckets, and nothing else.
_TOUCH = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = {}
for i = 1, 8 do fields[i] = 'b:tenant:bench/limit' .. i end
local stored = redis.call('HMGET', KEYS[1], unpack(fields))
local written = {}
for i = 1, 8 do
  local level, parts, at = 1e12, 0, now
  if stored[i] then level, parts, at = cmsgpack.unpack(stored[i]) end
  local product = (now - at) * 1e9 + parts
  local rest = math.fmod(product, 60000)
  level = math.min(1e12, level + (product - rest) / 60000) - 128
  written[2 * i - 1] = fields[i]
  written[2 * i] = cmsgpack.pack(level, rest, now)
end
redis.call('HSET', KEYS[1], unpack(written))
return 1
"""


@contextmanager
def server(folder: Path) -> Iterator[Valkey]:
    """A Valkey with its append-only file, as the store asks for."""
    with running_valkey(folder) as running:
        yield running


async def cpu_figures(folder: Path, running: Valkey) -> dict[str, object]:
    """Server CPU of a decision over that of the script; both in turn.

    Raises:
        RuntimeError: decisions were made without the server.
    """
    decided, touched, batched = [], [], []
    more = (f"--store={running.url}", "--store-timeout-s=2")
    async with (
        directory(snapshot()) as address,
        ratelimiter(folder, address, *more) as limiter,
    ):
        for number in range(RUNS):
            before, calls_before = cpu_s(running), _calls(running)
            run = await measure("multiplex", limiter, f"--seconds={_SECONDS}")
            # The warm-up's calls cost the server too.
            decisions = len(run.seconds) + run.warm_up_calls
            calls = _calls(running) - calls_before
            if calls < decisions:
                raise RuntimeError(f"{decisions} decisions, of which Redis made {calls}")
            decided.append((cpu_s(running) - before) / decisions)
            touched.append(await _touch(running, run.rate, in_batches=False))
            batched.append(await _touch(running, run.rate, in_batches=True))
            say(
                f"redis CPU, run {number + 1}: decision {decided[-1] * 1e6:.0f} us, "
                f"script {touched[-1] * 1e6:.0f} us, in batches {batched[-1] * 1e6:.0f} us"
            )
    return {
        "redis_cpu_us": {
            "decision": round(median(decided) * 1e6, 1),
            "script": round(median(touched) * 1e6, 1),
            "script_batched": round(median(batched) * 1e6, 1),
        },
        "redis_script_ratio": round(median(decided) / median(touched), 3),
        "redis_script_ratio_batched": round(median(decided) / median(batched), 3),
    }


def cpu_s(running: Valkey) -> float:
    """CPU time of the server so far, seconds, as it says itself."""
    with redis.Redis(port=running.port, decode_responses=True) as client:
        info = cast("dict[str, float]", client.info("cpu"))
    return info["used_cpu_user"] + info["used_cpu_sys"]


def _calls(running: Valkey) -> int:
    """Function calls of the server so far."""
    with redis.Redis(port=running.port, decode_responses=True) as client:
        stats = cast("dict[str, dict[str, int]]", client.info("commandstats"))
    return stats.get("cmdstat_fcall", {"calls": 0})["calls"]


async def _touch(running: Valkey, rate: float, *, in_batches: bool) -> float:
    """CPU seconds of the server a script call, at `rate` calls a second."""
    client = aioredis.Redis(port=running.port, max_connections=_CLIENTS)
    call = Batches(client).run if in_batches else client.execute_command
    try:
        digest = await client.script_load(_TOUCH)
        before = cpu_s(running)
        calls = await _in_step(lambda: call("EVALSHA", digest, 1, "{s:0001}:bench"), rate)
        return (cpu_s(running) - before) / calls
    finally:
        await client.aclose()


async def _in_step(call: Callable[[], Awaitable[object]], rate: float) -> int:
    """Clients that call at the same moments, `rate` times a second all together; their calls."""
    calls = 0

    async def loop(due: float, stop: float) -> None:
        nonlocal calls
        while due < stop:
            await asyncio.sleep(due - time.perf_counter())
            await call()
            calls += 1
            due += _CLIENTS / rate

    now = time.perf_counter()
    await asyncio.gather(*(loop(now, now + _SECONDS) for _ in range(_CLIENTS)))
    return calls
