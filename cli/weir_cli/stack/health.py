"""Waits until services that listen also serve."""

import asyncio
import json
import re
import time
import urllib.error
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

from weir.scheduler.v1.scheduler_service_pb2 import ListWorkersRequest
from weir_cli.errors import CommandError
from weir_cli.stack.gateway_http import get
from weir_cli.stack.running import Door
from weir_cli.stack.scheduler_door import scheduler_stub
from weir_cli.stack.services import GATEWAY
from weir_cli.stack.stack_tls import StackTls
from weir_core.rpc.channel import ChannelTls, open_channel

_CALL_S = 2.0
_PAUSE_S = 0.05


async def wait_serving(
    addresses: Mapping[str, str], deadline_s: float, tls: StackTls | None = None
) -> None:
    """Returns when every server reports SERVING (`grpc.health.v1`).

    Args:
        addresses: `host:port` by name of the service.
        deadline_s: seconds for all together.
        tls: of the stack.

    Raises CommandError naming those that do not.
    """
    waits = {
        name: asyncio.create_task(_until_serving(name, address, tls))
        for name, address in addresses.items()
    }
    _, late = await asyncio.wait(waits.values(), timeout=deadline_s)
    for wait in late:
        wait.cancel()
    if late:
        names = ", ".join(name for name, wait in waits.items() if wait in late)
        raise CommandError(f"{names}: not serving {deadline_s:.0f} s after it was started")


async def wait_ready(http: str, deadline_s: float, ca: Path | None = None) -> None:
    """Returns when the gateway says that it can serve.

    Args:
        http: `host:port` of its HTTP server.
        deadline_s: seconds.
        ca: see `get`.

    Raises CommandError with its reason when it does not.
    """
    ends_at = time.monotonic() + deadline_s
    while why := await asyncio.to_thread(_not_ready, http, ca):
        if time.monotonic() > ends_at:
            raise CommandError(f"gateway: not ready after {deadline_s:.0f} s: {why}")
        await asyncio.sleep(_PAUSE_S)


def _not_ready(http: str, ca: Path | None) -> str:
    """Why not, empty when it is."""
    try:
        get(http, "/healthz/ready", ca)
        return ""
    except urllib.error.HTTPError as error:
        return str(json.loads(error.read() or b"{}").get("reason", error))
    except OSError as error:
        return str(error)


async def wait_workers(
    scheduler: str,
    secret: str,
    names: Iterable[str],
    deadline_s: float,
    tls: StackTls | None = None,
) -> None:
    """Returns when the scheduler knows every worker as ready. Raises CommandError if it is late.

    Args:
        scheduler: its address; of several, separated by commas, the active one is asked.
        tls: of the stack.
    """
    missing = set(names)
    door = Door(scheduler, SecretStr(secret), tls.operator() if tls is not None else None)
    try:
        async with asyncio.timeout(deadline_s), scheduler_stub(door, deadline_s) as stub:
            while missing:
                listed = await stub.ListWorkers(ListWorkersRequest())
                ready = [w.registration.worker_id for w in listed.workers if w.state == "ready"]
                missing = {name for name in missing if not _named(name, ready)}
                await asyncio.sleep(_PAUSE_S if missing else 0)
    except TimeoutError:
        raise CommandError(
            f"{', '.join(sorted(missing))}: not ready for the scheduler after {deadline_s:.0f} s"
        ) from None


async def knows_key(http: str, key: str, ca: Path | None = None) -> bool:
    """Whether the gateway lets an API key in; an empty one it does not.

    Args:
        http: `host:port` of its HTTP server, which is ready.
        ca: see `get`.
    """
    return bool(key) and await asyncio.to_thread(_is_let_in, http, key, ca)


def _is_let_in(http: str, key: str, ca: Path | None) -> bool:
    try:
        get(http, "/v1/models", ca, {"authorization": f"Bearer {key}"})
        return True
    except urllib.error.HTTPError:
        return False
    except OSError:
        return True  # the first answer tells more


def _named(name: str, worker_ids: Iterable[str]) -> bool:
    """Whether a worker of that name is among the ids; each process adds its own suffix."""
    return any(worker_id == name or worker_id.startswith(f"{name}-") for worker_id in worker_ids)


async def _until_serving(name: str, address: str, tls: StackTls | None) -> None:
    peer: ChannelTls | None = None
    if tls is not None:
        peer = tls.client() if name == GATEWAY else tls.operator()
    service = re.sub(r"-\d+$", "", name)
    async with open_channel(address, name=service, tls=peer) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its type stub lacks the methods
        while True:
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_CALL_S)
            except grpc.aio.AioRpcError:
                answer = None
            if answer and answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
            await asyncio.sleep(_PAUSE_S)
