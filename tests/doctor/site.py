"""A deployment that is well, made ill, and asked about with `weir doctor`."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cli.command import Ended, weir
from tests.doctor.clients import Clients, Running
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.wait import until
from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus, WorkerView

# A fifth more than the doctor needs, of each tenant that runs.
_ENOUGH = 24
_SHORTEST_S = 2.4
_LONGEST_S = 90.0
# Of parameters that nobody has set.
_BOUNDS = {"max_batch_size": 64, "max_batch_tokens": 65_536, "max_concurrent_requests": 256}
_LIMITS = [
    {"resource": "concurrency", "limit": 200},
    {"resource": "requests", "rate": "10000/s"},
    {"resource": "tokens", "rate": "100M/min"},
]
PLANS: list[dict[str, Any]] = [
    {"id": "wide", "limits": _LIMITS, "policy": {"kv": {"share_private": True}}},
    {"id": "two-at-once", "limits": [{"resource": "concurrency", "limit": 2}, *_LIMITS[1:]]},
]
TENANTS: Mapping[str, Mapping[str, Any]] = {
    "acme": {"plan": "wide"},
    "globex": {"plan": "wide"},
    "capped": {"plan": "wide", "policy": {"max_running_requests": 2}},
    "limited": {"plan": "two-at-once"},
}


@dataclass
class Site:
    """A deployment and its directory.

    Attributes:
        began: of the phases of the present patient, monotonic.
    """

    stack: Deployment
    directory: Path
    seed: int = 0
    began: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def phase(self, clients: Sequence[Clients]) -> AsyncIterator[Running]:
        """Load that goes on for long enough, and while the body runs."""
        self.began.append(time.monotonic())
        self.seed += 1
        running = Running(self.stack, clients, self.seed)
        try:
            await asyncio.sleep(_SHORTEST_S)
            await until(
                _told(lambda: (running.answered, running.refused)),
                lambda seen: all(n >= _ENOUGH for n in seen[0].values()),
                "enough answers",
                _LONGEST_S,
            )
            # What ended in the last moment is in the next sample.
            await asyncio.sleep(1.2)
            yield running
        finally:
            await running.stop()

    async def doctor(self, *what: str) -> dict[str, Any]:
        """What `weir doctor` says of the last phase beside the one before."""
        now = time.monotonic()
        since, baseline = now - self.began[-1], self.began[-1] - self.began[-2]
        return await self.doctor_of(
            *what, "--since", f"{since:.1f}s", "--baseline", f"{baseline:.1f}s"
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
        yield Site(stack, folder / "state-directory.yaml")


def _told(read: Callable[[], Any]) -> Callable[[], Any]:
    async def look() -> Any:
        return read()

    return look
