"""A stack that the calibration starts itself."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir_cli.calibration.settings import ChosenSettings, with_settings
from weir_cli.calibration.site import Caller, one_profile, standing_of, wait_applied, workers_of
from weir_cli.stack.local import LocalStack, StackOptions
from weir_cli.stack.running import Door, scheduler_door
from weir_cli.stack.served_model import ServedModel, choose_model
from weir_gateway.keys import NewKey, generate_key

_NAME = "calibration"
_POOL = "default"


class OwnSite:
    """See `Site`; `open_own_site` makes it.

    Args:
        stack: started.
        directory: the file that it reads.
        document: its contents without chosen values.
        worker: its only one.
        door: of the scheduler.
    """

    def __init__(
        self,
        stack: LocalStack,
        directory: Path,
        document: Mapping[str, Any],
        worker: WorkerView,
        door: Door,
    ) -> None:
        welcome = stack.welcome
        self.caller = Caller(welcome.grpc, welcome.key, welcome.model)
        self.door = door
        self.changeable = self.started_here = True
        self._directory = directory
        self._document = document
        self.worker = worker
        self.standing = standing_of(worker)

    async def apply(self, chosen: ChosenSettings) -> None:
        """See `Site`."""
        pool = self._document["pools"][0] | {"scheduler_policy": chosen.policy or "fifo"}
        model = with_settings(self._document["models"][0], self.worker.registration.profile, chosen)
        _write(self._directory, {**self._document, "pools": [pool], "models": [model]})
        await wait_applied(self.door, self.caller.model, chosen)


@asynccontextmanager
async def open_own_site(
    model: Path | None, null: bool, folder: Path, say: Callable[[str], None]
) -> AsyncIterator[OwnSite]:
    """Starts a stack of one worker without limits and ends it.

    Args:
        model: folder; None: the default model.
        null: serve the model that computes nothing.
        folder: for its directory and its state.
        say: gets lines about what takes long.
    """
    served = await choose_model(model, null, say)
    key = generate_key("dev")
    document = _document(served, key)
    directory = folder / "directory.yaml"
    _write(directory, document)
    state = folder / "state"
    options = StackOptions(
        port=0, models=(str(model),) if model else (), null=null, directory=directory,
        state_dir=state, api_key=key.secret,
    )  # fmt: skip
    stack = LocalStack(options, lambda _: None, say)
    keeping: asyncio.Task[None] | None = None
    try:
        await stack.start()
        keeping = asyncio.create_task(stack.keep_up())
        door = scheduler_door("", state)
        worker = one_profile(await workers_of(door, served.name), served.name)
        yield OwnSite(stack, directory, document, worker, door)
    finally:
        if keeping is not None:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
        await stack.stop()


def _document(model: ServedModel, key: NewKey) -> dict[str, Any]:
    """No limits: the worker is to be measured, not the limiter."""
    served: dict[str, Any] = {
        "name": model.name,
        "versions": [{"version": "1", "folder": str(model.folder)}],
        "max_context": model.max_context,
        "pool": _POOL,
    }
    tenant = {
        "id": _NAME,
        "plan": _NAME,
        "users": [{"id": _NAME}],
        "keys": [{"id": key.id, "user": _NAME, "hash": f"sha256:{key.hash.hex()}"}],
    }
    return {
        "plans": [{"id": _NAME, "limits": []}],
        "pools": [{"name": _POOL}],
        "models": [served],
        "tenants": [tenant],
    }


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """In one piece: the gateway may look at any moment."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(yaml.safe_dump(dict(document), sort_keys=False))
    os.replace(draft, path)
