"""`weir workers`: the workers of a running scheduler, and their drain."""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_cli.errors import CommandError
from weir_cli.output import Output
from weir_cli.stack.running import Door, scheduler_door
from weir_cli.stack.scheduler_door import CALL_S, scheduler_stub
from weir_cli.workers_text import workers_text

_PAUSE_S = 0.2
_LOST = "lost"

app = typer.Typer(help="List workers and drain them.", no_args_is_help=True)
_StateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]
_Address = Annotated[
    str, typer.Option(help="host:port of a scheduler; its secret in WEIR_CLUSTER_TOKEN.")
]
_Worker = Annotated[str, typer.Argument(help="Its id, or a beginning that no other has.")]


@app.command("ls")
def ls(
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TEXT,
    state_dir: _StateDir = None,
    address: _Address = "",
) -> None:
    """List the workers as the scheduler sees them, and how many there should be."""
    workers, pools = asyncio.run(_look(scheduler_door(address, state_dir)))
    if output is Output.JSON:
        shown = {
            "workers": [_as_dict(worker) for worker in workers],
            "pools": [_as_dict(pool) for pool in pools],
        }
        print(json.dumps(shown, indent=2))
    else:
        print(workers_text(workers, pools))


@app.command()
def drain(
    worker: _Worker,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when it has left, its last answer given.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 600.0,
    state_dir: _StateDir = None,
    address: _Address = "",
) -> None:
    """Send a worker nothing new; it ends what it has, and leaves. Nothing is cut off.

    Under `weir up` a new one takes its place.
    """
    door = scheduler_door(address, state_dir)
    view = asyncio.run(_drain(door, worker, cancel=False))
    worker_id = view.registration.worker_id
    print(f"{worker_id}: draining, {view.running_attempts + view.pending_attempts} running")
    if wait:
        asyncio.run(_until_gone(door, worker_id, timeout))
        print(f"{worker_id}: gone")


@app.command()
def undrain(worker: _Worker, state_dir: _StateDir = None, address: _Address = "") -> None:
    """Send a draining worker work again, if it has not left yet."""
    view = asyncio.run(_drain(scheduler_door(address, state_dir), worker, cancel=True))
    print(f"{view.registration.worker_id}: {view.state}")


async def _look(door: Door) -> tuple[list[wire.WorkerView], list[wire.PoolScaling]]:
    async with scheduler_stub(door) as stub:
        workers = await stub.ListWorkers(wire.ListWorkersRequest(), timeout=CALL_S)
        scaling = await stub.GetScalingSignals(wire.GetScalingSignalsRequest(), timeout=CALL_S)
    ordered = sorted(workers.workers, key=lambda view: view.registration.worker_id)
    return ordered, list(scaling.pools)


async def _drain(door: Door, worker: str, *, cancel: bool) -> wire.WorkerView:
    async with scheduler_stub(door) as stub:
        listed = await stub.ListWorkers(wire.ListWorkersRequest(), timeout=CALL_S)
        there = [view for view in listed.workers if view.state != _LOST]
        worker_id = _one_of(worker, [view.registration.worker_id for view in there])
        request = wire.DrainWorkerRequest(worker_id=worker_id, cancel=cancel)
        return (await stub.DrainWorker(request, timeout=CALL_S)).worker


def _one_of(worker: str, ids: list[str]) -> str:
    """The id that is meant. Raises CommandError when it is none, or more than one."""
    found = [worker] if worker in ids else [one for one in ids if one.startswith(worker)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(sorted(found or ids)) or "none"
    if found:
        raise CommandError(f"{worker!r} is more than one worker: {known}")
    raise CommandError(f"{worker!r} is no worker, or has left; running: {known}")


async def _until_gone(door: Door, worker_id: str, timeout_s: float) -> None:
    """Raises CommandError when it is still there, or was called back."""
    ends_at = time.monotonic() + timeout_s
    async with scheduler_stub(door) as stub:
        while True:
            listed = await stub.ListWorkers(wire.ListWorkersRequest(), timeout=CALL_S)
            views = [one for one in listed.workers if one.registration.worker_id == worker_id]
            if not views or views[0].state == _LOST:
                return
            if views[0].state == "ready":
                raise CommandError(f"{worker_id} does not drain any more")
            if time.monotonic() > ends_at:
                left = views[0].running_attempts + views[0].pending_attempts
                raise CommandError(f"{worker_id} still runs {left} after {timeout_s:g} s")
            await asyncio.sleep(_PAUSE_S)


def _as_dict(message: wire.WorkerView | wire.PoolScaling) -> object:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
