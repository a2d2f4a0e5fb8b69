"""A deployment that is well, made ill, and asked about with `weir doctor`."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cli.command import Ended, weir
from tests.doctor.clients import Clients, Running
from tests.doctor.kept import Kept, kept_since
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.wait import until
from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceStub
from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus, WorkerView
from weir_cli.administration import admin_door
from weir_core.rpc.channel import open_channel

if TYPE_CHECKING:
    from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceAsyncStub

_LONGEST_S = 120.0
_LOOK_S = 0.25
# Of parameters that nobody has set.
_BOUNDS = {"max_batch_size": 64, "max_batch_tokens": 65_536, "max_concurrent_requests": 256}
_LIMITS = [
    {"resource": "concurrency", "limit": 200},
    {"resource": "requests", "rate": "10000/s"},
    {"resource": "tokens", "rate": "100M/min"},
]
PLANS: list[dict[str, Any]] = [
    {"id": "wide", "limits": _LIMITS, "policy": {"kv": {"share_private": True}}},
    {"id": "four-at-once", "limits": [{"resource": "concurrency", "limit": 4}, *_LIMITS[1:]]},
]
TENANTS: Mapping[str, Mapping[str, Any]] = {
    "acme": {"plan": "wide"},
    "globex": {"plan": "wide"},
    "capped": {"plan": "wide", "policy": {"max_running_requests": 4}},
    "limited": {"plan": "four-at-once"},
}


@dataclass
class Site:
    """A deployment and its directory.

    Attributes:
        history: of its gateway.
        phases: what was kept of each that has gone on for long enough.
    """

    stack: Deployment
    directory: Path
    history: "HistoryServiceAsyncStub"
    seed: int = 0
    phases: list[Kept] = field(default_factory=list)

    @asynccontextmanager
    async def phase(
        self, clients: Sequence[Clients], judged: Collection[str] = ()
    ) -> AsyncIterator[Running]:
        """Load that goes on until enough of it is kept, and while the body runs.

        Args:
            clients: who ask.
            judged: tenants that need answers; default: all of them.
        """
        self.seed += 1
        tenants = judged or {one.tenant for one in clients}
        running = Running(self.stack, clients, self.seed)
        begin_us = time.time_ns() // 1_000
        try:
            enough = await until(
                lambda: self._kept(begin_us, tenants),
                lambda kept: kept.enough,
                "enough in the history",
                _LONGEST_S,
            )
            self.phases.append(enough)
            yield running
        finally:
            await running.stop()

    async def doctor(self, *what: str) -> dict[str, Any]:
        """What `weir doctor` says of the last phase, up to now, beside the one before."""
        well, ill = self.phases[-2:]
        return await self.doctor_of(
            *what, "--since", ill.begin, "--baseline", f"{well.begin}/{well.end}"
        )

    async def doctor_of(self, *arguments: str) -> dict[str, Any]:
        """What `weir doctor` says with these arguments."""
        ended = await self.weir("doctor", *arguments, "--output", "json")
        assert ended.returncode in (0, 1), ended
        told: dict[str, Any] = json.loads(ended.stdout)
        assert ended.returncode == (0 if told["healthy"] else 1), ended
        return told

    async def weir(self, *arguments: str) -> Ended:
        """A command for this deployment, as an administrator runs it."""
        return await asyncio.to_thread(weir, *arguments, "--state-dir", str(self.stack.state))

    async def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Edits the directory and waits until the scheduler has it."""
        document = yaml.safe_load(self.directory.read_text())
        edit(document)
        self.directory.write_text(yaml.safe_dump(document))
        bounds = _BOUNDS | document["models"][0].get("parameters", {})
        kinds = [pool.get("isolation") for pool in document.get("pools", [])]

        def has(seen: tuple[Sequence[WorkerView], Sequence[PoolStatus]]) -> bool:
            workers, pools = seen
            return all(not kinds or pool.isolation == kinds[0] for pool in pools) and all(
                getattr(one.parameters, name) == value
                for one in workers
                for name, value in bounds.items()
                if hasattr(one.parameters, name)
            )

        await until(self._scheduled, has, "the rules of pools and workers")

    async def _kept(self, begin_us: int, tenants: Collection[str]) -> Kept:
        await asyncio.sleep(_LOOK_S)
        return await kept_since(self.history, begin_us, tenants)

    async def _scheduled(self) -> tuple[Sequence[WorkerView], Sequence[PoolStatus]]:
        return await self.stack.workers(), await self.stack.pools()


def parameters(**values: int) -> Callable[[dict[str, Any]], None]:
    """An edit: these parameters of the model, and no others."""

    def edit(document: dict[str, Any]) -> None:
        document["models"][0]["parameters"] = dict(values)

    return edit


def isolation(kind: str, **values: int) -> Callable[[dict[str, Any]], None]:
    """An edit: how the pool keeps tenants apart, and parameters of the model."""

    def edit(document: dict[str, Any]) -> None:
        document["pools"] = [{"name": "default", "isolation": kind}]
        document["models"][0]["parameters"] = dict(values)

    return edit


@asynccontextmanager
async def open_site(
    folder: Path, model: Path | None, settings: Mapping[str, str], workers: int = 1
) -> AsyncIterator[Site]:
    """A deployment with samples of a second."""
    async with deployed(
        folder / "state",
        model,
        tenants=TENANTS,
        plans=PLANS,
        workers=workers,
        settings={
            "WEIR_GATEWAY__HISTORY_STEP_S": "1",
            "WEIR_GATEWAY__DIRECTORY_POLL_S": "0.2",
            **settings,
        },
    ) as stack:
        door = admin_door("", stack.state)
        async with open_channel(
            door.address, name="gateway", token=door.token, tls=door.tls
        ) as channel:
            yield Site(stack, folder / "state-directory.yaml", HistoryServiceStub(channel))
