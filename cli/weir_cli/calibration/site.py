"""Where a calibration takes place: a stack, its door, its workers and its knobs."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weir.scheduler.v1.scheduler_service_pb2 import ListWorkersRequest, WorkerView
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door
from weir_cli.stack.scheduler_door import CALL_S, scheduler_stub

# Of the values that are resolved for a worker, those that a calibration chooses.
_CHOSEN = ("max_batch_size", "max_batch_tokens", "max_concurrent_requests", "max_step_tokens")
_APPLIED_S = 30.0
_READ_S = 2.5
"""A gateway looks at its directory file every second; what it has read is not all to be seen."""
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, where, and for what.

    Attributes:
        address: `host:port` of the gateway's gRPC door.
        key: of a tenant whose limits are not in the way.
        model: public name.
    """

    address: str
    key: str
    model: str


class Site(Protocol):
    """A stack that is calibrated."""

    @property
    def caller(self) -> Caller:
        """How loads are sent."""

    @property
    def door(self) -> Door:
        """Of the scheduler, to look at workers."""

    @property
    def worker(self) -> WorkerView:
        """One that stands for all, as it was in the beginning."""

    @property
    def standing(self) -> ChosenSettings:
        """What was in force when the calibration began."""

    @property
    def changeable(self) -> bool:
        """Whether `apply` can change anything."""

    @property
    def started_here(self) -> bool:
        """Whether all of it is processes below this one."""

    async def apply(self, chosen: ChosenSettings) -> None:
        """Puts values in force and returns when the workers have them. Raises CommandError."""


async def workers_of(door: Door, model: str) -> list[WorkerView]:
    """The ready workers of a model. Raises CommandError."""
    async with scheduler_stub(door) as stub:
        listed = await stub.ListWorkers(ListWorkersRequest(), timeout=CALL_S)
    return [
        one for one in listed.workers if one.registration.model == model and one.state == "ready"
    ]


def standing_of(view: WorkerView) -> ChosenSettings:
    """What is in force for a worker."""
    return ChosenSettings({name: getattr(view.parameters, name) for name in _CHOSEN})


async def wait_applied(door: Door, model: str, chosen: ChosenSettings) -> None:
    """Until every worker has the values, and nothing of before to do.

    Raises CommandError when that does not come.
    """
    wanted = {name: int(value) for name, value in chosen.of_profile().items()}
    begin = time.monotonic()
    while True:
        views = await workers_of(door, model)
        has = bool(views) and all(_has(view, wanted) for view in views)
        passed_s = time.monotonic() - begin
        if has and passed_s >= _READ_S and not any(_busy(view) for view in views):
            return
        if passed_s > _APPLIED_S:
            lacking = "are still busy" if has else f"did not get {wanted}"
            raise CommandError(f"the workers of {model} {lacking} after {_APPLIED_S:g} s")
        await asyncio.sleep(_PAUSE_S)


def _busy(view: WorkerView) -> bool:
    return bool(view.load.running_requests or view.load.waiting_requests)


def _has(view: WorkerView, wanted: dict[str, int]) -> bool:
    return all(getattr(view.parameters, name) == value for name, value in wanted.items())


def one_profile(views: Sequence[WorkerView], model: str) -> WorkerView:
    """A worker that stands for all. Raises CommandError when there is none, or they differ."""
    if not views:
        raise CommandError(f"no worker of {model} is ready")
    profiles = sorted({view.registration.profile for view in views})
    if len(profiles) > 1:
        raise CommandError(
            f"the workers of {model} have several profiles ({', '.join(profiles)}); calibrate "
            "each with only its workers running"
        )
    return views[0]
