"""What a light tenant feels of a heavy one, through the four services and two workers.

The heavy tenant sends ten times the requests with prompts twenty times as long, more than the
workers can do; the light one waits for its first tokens as long as it does alone and at most two
full steps longer. The model computes nothing, in steps of a fixed length, so that a step is a
unit of time. The control has one queue for all and no cap: there the light tenant waits behind.
"""

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from google.protobuf.timestamp_pb2 import Timestamp

from bench.load import Client, RequestFailed, open_client
from weir_cli.load.exchange import Exchange
from weir_cli.stack.local import LocalStack, StackOptions
from weir_cli.stack.served_model import choose_model
from weir_gateway.keys import NewKey, generate_key

_STEP_MS = 250
_STEP_TOKENS = 256
_PLACES = 8
_WORKERS = 2
_LIGHT_EVERY_S = 1.0
_LIGHT_PROMPT, _HEAVY_PROMPT = 32, 640
_OUTPUT = 8
_TIMES_THE_LOAD = 10
_WARM_UP_S = 3.0
_PATIENCE_S = 5.0
_SETTINGS = {
    "WEIR_WORKER__NULL_STEP_US": str(_STEP_MS * 1_000),
    "WEIR_WORKER__MAX_STEP_TOKENS": str(_STEP_TOKENS),
    "WEIR_WORKER__MAX_CONCURRENT_REQUESTS": str(_PLACES),
}
_LIMITS: list[dict[str, Any]] = [
    {"resource": "concurrency", "limit": 10_000},
    {"resource": "requests", "rate": "100000/s"},
    {"resource": "tokens", "rate": "1000M/min"},
]


@dataclass(frozen=True)
class Isolation:
    """How the tenants are kept apart.

    Attributes:
        pool: further fields of the pool.
        cap: requests of a tenant that run at once; 0 for any number.
    """

    pool: Mapping[str, Any]
    cap: int


FAIR = Isolation({"isolation": "weighted"}, _WORKERS * _PLACES - 4)
ONE_QUEUE = Isolation({"isolation": "shared"}, 0)


@dataclass(frozen=True)
class Site:
    """A running stack and a client for each tenant."""

    light: Client
    heavy: Client


@asynccontextmanager
async def site(isolation: Isolation) -> AsyncIterator[Site]:
    """Starts the services and ends them."""
    os.environ.update(_SETTINGS)
    keys = {tenant: generate_key("dev") for tenant in ("light", "heavy")}
    with TemporaryDirectory(prefix="weir-bench-") as folder:
        directory = Path(folder, "directory.yaml")
        directory.write_text(await _directory(isolation, keys))
        options = StackOptions(
            workers=_WORKERS,
            port=0,
            null=True,
            directory=directory,
            state_dir=Path(folder, "state"),
            api_key=keys["light"].secret,
        )
        stack = LocalStack(options, _quiet, _quiet)
        try:
            await stack.start()
            grpc_address, model = stack.welcome.grpc, stack.welcome.model
            async with (
                open_client(grpc_address, keys["light"].secret, model) as light,
                open_client(grpc_address, keys["heavy"].secret, model) as heavy,
            ):
                yield Site(light, heavy)
        finally:
            await stack.stop()


@dataclass(frozen=True)
class Wait:
    """p95 over the light tenant's requests, milliseconds.

    Attributes:
        ttft: from the call to the first token, at the client.
        queue: of that in the scheduler's queue.
        worker: of that from the dispatch to the first token.
    """

    ttft: float
    queue: float
    worker: float


async def light_requests(clients: Site, requests: int) -> Wait:
    """Sends the light tenant's requests one after the other, whatever they take."""
    rng = random.Random(1)
    calls = []
    for _ in range(requests):
        calls.append(asyncio.create_task(_ask(clients.light, _LIGHT_PROMPT, rng)))
        await asyncio.sleep(_LIGHT_EVERY_S * rng.uniform(0.5, 1.5))
    answers = [answer for answer in await asyncio.gather(*calls) if answer is not None]
    if len(answers) < requests:
        raise RuntimeError(f"{requests - len(answers)} of {requests} light requests had no answer")
    records = [answer.record for answer in answers if answer.record is not None]
    return Wait(
        ttft=_p95([(answer.ttft_s or 0.0) * 1e3 for answer in answers]),
        queue=_p95([_ms(r.start_time) - _ms(r.queue_enter_time) for r in records]),
        worker=_p95([_ms(r.first_token_time) - _ms(r.start_time) for r in records]),
    )


def _p95(values: list[float]) -> float:
    return round(quantiles(values, n=20)[18], 1)


def _ms(moment: Timestamp) -> float:
    return moment.ToNanoseconds() / 1e6


async def beside_the_heavy(clients: Site, requests: int) -> tuple[Wait, int]:
    """The same while the other tenant floods; also how many of its requests were answered."""
    flood = asyncio.create_task(_flood(clients.heavy))
    try:
        await asyncio.sleep(_WARM_UP_S)
        wait = await light_requests(clients, requests)
    finally:
        flood.cancel()
        answered = (await asyncio.gather(flood, return_exceptions=True))[0]
    return wait, answered if isinstance(answered, int) else 0


async def _flood(client: Client) -> int:
    rng = random.Random(2)
    calls: set[asyncio.Task[Exchange | None]] = set()
    answered = 0

    def ended(call: asyncio.Task[Exchange | None]) -> None:
        nonlocal answered
        calls.discard(call)
        answered += not call.cancelled() and call.result() is not None

    try:
        while True:
            call = asyncio.create_task(_ask(client, _HEAVY_PROMPT, rng))
            calls.add(call)
            call.add_done_callback(ended)
            await asyncio.sleep(_LIGHT_EVERY_S / _TIMES_THE_LOAD)
    except asyncio.CancelledError:
        for call in tuple(calls):
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return answered


async def _ask(client: Client, prompt: int, rng: random.Random) -> Exchange | None:
    """None when the request was refused or came to nothing."""
    tokens = [rng.randrange(1, 250) for _ in range(prompt)]
    try:
        return await client.generate(tokens, _OUTPUT)
    except RequestFailed as refusal:
        if prompt == _LIGHT_PROMPT:
            _say(f"a light request failed: {refusal}")
        return None


async def _directory(isolation: Isolation, keys: Mapping[str, NewKey]) -> str:
    model = await choose_model(None, True, _quiet)
    policy = {"max_running_requests": isolation.cap} if isolation.cap else {}
    tenants = [
        {
            "id": tenant,
            "plan": "wide",
            "policy": policy,
            "users": [{"id": tenant}],
            "keys": [{"id": key.id, "user": tenant, "hash": f"sha256:{key.hash.hex()}"}],
        }
        for tenant, key in keys.items()
    ]
    served = {
        "name": model.name,
        "versions": [{"version": "1", "folder": str(model.folder)}],
        "max_context": model.max_context,
        "pool": "fair",
    }
    document = {
        "cluster": {"limits": _LIMITS[1:]},
        "pools": [{"name": "fair", **isolation.pool}],
        "plans": [{"id": "wide", "limits": _LIMITS}],
        "models": [served],
        "tenants": tenants,
    }
    return yaml.safe_dump(document)


async def measure(runs: int, requests: int) -> dict[str, Any]:
    """Alone and beside, in turn, then the control once."""
    alone, beside, answered = [], [], 0
    async with site(FAIR) as clients:
        for run in range(runs):
            alone.append(await light_requests(clients, requests))
            wait, answered = await beside_the_heavy(clients, requests)
            beside.append(wait)
            _say(f"run {run + 1}: alone {alone[-1]}, beside {wait}")
            await asyncio.sleep(_PATIENCE_S)
    async with site(ONE_QUEUE) as clients:
        control, _ = await beside_the_heavy(clients, max(10, requests // 3))
    _say(f"control, one queue and no cap: {control}")
    alone_ms, beside_ms = (median(w.ttft for w in waits) for waits in (alone, beside))
    added = (beside_ms - alone_ms) / _STEP_MS
    return {
        "ttft_alone_p95_ms": alone_ms,
        "ttft_beside_p95_ms": beside_ms,
        "step_ms": _STEP_MS,
        "added_steps": round(added, 2),
        "within_two_steps": added <= 2,
        "queue_beside_p95_ms": median(w.queue for w in beside),
        "worker_beside_p95_ms": median(w.worker for w in beside),
        "worker_alone_p95_ms": median(w.worker for w in alone),
        "heavy_answered": answered,
        "control_p95_ms": control.ttft,
        "control_added_steps": round((control.ttft - alone_ms) / _STEP_MS, 1),
    }


def _quiet(text: str) -> None:
    del text


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Prints progress, and one JSON object at last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=60, help="of the light tenant, a phase")
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(measure(arguments.runs, arguments.requests))))


if __name__ == "__main__":
    main()
