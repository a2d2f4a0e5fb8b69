"""What the scheduler says about workers, and what it is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door
from weir_cli.stack.scheduler_door import CALL_S, scheduler_stub

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker in the scheduler's list: its state, and attempts on it."""

    state: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many workers of a model there should be, and why."""

    workers: int
    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the scheduler.

    Attributes:
        workers: by id.
        wanted: by model; a model of which nothing is known is not among them.
    """

    workers: Mapping[str, SeenWorker] = field(default_factory=dict)
    wanted: Mapping[str, Wanted] = field(default_factory=dict)


class FleetOrders(Protocol):
    """What `Crew` and `Elasticity` need of a scheduler."""

    async def look(self) -> Look | None:
        """None while the scheduler does not answer."""

    async def drain(self, worker_id: str, *, cancel: bool = False) -> bool:
        """Drains a worker, or no longer; False when it is not known, or nobody answers."""


class SchedulerOrders:
    """`FleetOrders` of a scheduler that is reached through a door."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def look(self) -> Look | None:
        """See `FleetOrders.look`."""
        try:
            async with scheduler_stub(self._door) as stub:
                workers = await stub.ListWorkers(wire.ListWorkersRequest(), timeout=CALL_S)
                scaling = await stub.GetScalingSignals(
                    wire.GetScalingSignalsRequest(), timeout=CALL_S
                )
        except CommandError:
            return None
        return Look({view.registration.worker_id: _seen(view) for view in workers.workers},
                    _wanted(scaling))  # fmt: skip

    async def drain(self, worker_id: str, *, cancel: bool = False) -> bool:
        """See `FleetOrders.drain`."""
        request = wire.DrainWorkerRequest(worker_id=worker_id, cancel=cancel)
        try:
            async with scheduler_stub(self._door) as stub:
                await stub.DrainWorker(request, timeout=CALL_S)
        except CommandError:
            return False
        return True


def _seen(view: wire.WorkerView) -> SeenWorker:
    return SeenWorker(view.state, view.pending_attempts + view.running_attempts)


def _wanted(scaling: wire.GetScalingSignalsResponse) -> dict[str, Wanted]:
    """The workers of this machine are all alike, and so in one pool: that which asks for most."""
    wanted: dict[str, Wanted] = {}
    for pool in scaling.pools:
        advice = pool.recommendation
        known = wanted.get(pool.model)
        if advice.reason != _UNKNOWN and (known is None or advice.workers > known.workers):
            why = ", ".join(part for part in (advice.reason, advice.driver) if part)
            wanted[pool.model] = Wanted(advice.workers, why)
    return wanted
