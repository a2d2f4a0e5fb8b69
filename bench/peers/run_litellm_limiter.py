"""LiteLLM's limiter alone: the check that its proxy makes before each call, in memory.

Runs in the environment of the peer `litellm`; prints one JSON line with `decisions_s`. 32 loops
at once check requests and tokens a minute of a key, its user and its team, none of which binds.
"""

import asyncio
import json
import os
import sys
import time
from importlib import import_module
from typing import Any

_LOOPS = 32
_NEVER = 1_000_000_000


def _limiter() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    hooks = import_module("litellm.proxy.hooks.parallel_request_limiter_v3")
    utils = import_module("litellm.proxy.utils")
    caching = import_module("litellm.caching.caching")
    return hooks._PROXY_MaxParallelRequestsHandler_v3(utils.InternalUsageCache(caching.DualCache()))


def _caller() -> Any:
    types = import_module("litellm.proxy._types")
    limits = {
        f"{scope}{kind}_limit": _NEVER
        for scope in ("", "user_", "team_")
        for kind in ("rpm", "tpm")
    }
    return types.UserAPIKeyAuth(api_key="k" * 64, user_id="user", team_id="team", **limits)


async def main(seconds: float) -> None:
    limiter, caller = _limiter(), _caller()
    cache = import_module("litellm.caching.caching").DualCache()
    until = 0.0
    decisions = 0

    async def check() -> None:
        messages = [{"role": "user", "content": "hello"}]
        data = {"model": "m", "messages": messages, "max_tokens": 64}
        await limiter.async_pre_call_hook(caller, cache, data, "completion")

    async def loop() -> None:
        nonlocal decisions
        while time.perf_counter() < until:
            await check()
            decisions += 1

    await check()
    start = time.perf_counter()
    until = start + seconds
    await asyncio.gather(*(loop() for _ in range(_LOOPS)))
    print(json.dumps({"decisions_s": decisions / (time.perf_counter() - start)}))


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
