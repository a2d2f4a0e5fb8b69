"""A stack that runs already."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir_cli.calibration.directory_edit import put_settings, write_whole
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.calibration.site import Caller, one_profile, standing_of, wait_applied, workers_of
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door


class RunningSite:
    """See `Site`; `open_running_site` makes it.

    Args:
        caller: who asks.
        door: of the scheduler.
        worker: one that stands for all.
        directory: the file that the stack reads; None: nothing can be changed.
        before: its contents when the calibration began.
    """

    def __init__(
        self, caller: Caller, door: Door, worker: WorkerView, directory: Path | None, before: bytes
    ) -> None:
        self.caller = caller
        self.door = door
        self.changeable = directory is not None
        self.started_here = False
        self.worker = worker
        self.standing = standing_of(worker)
        self._directory = directory
        self._before = before

    async def apply(self, chosen: ChosenSettings) -> None:
        """See `Site`."""
        if self._directory is None:
            raise CommandError("the stack's directory file is not known; give --directory")
        self.restore()
        put_settings(self._directory, self.caller.model, self.worker.registration.profile, chosen)
        await wait_applied(self.door, self.caller.model, chosen)

    def restore(self) -> None:
        """Puts the directory back as it was."""
        if self._directory is not None:
            write_whole(self._directory, self._before)


@asynccontextmanager
async def open_running_site(
    caller: Caller, door: Door, directory: Path | None, folder: Path
) -> AsyncIterator[RunningSite]:
    """The stack there; its directory file is put back in the end, after a kill by the next run.

    Args:
        caller: who asks.
        door: of its scheduler.
        directory: the file that it reads, if it may be changed for a while.
        folder: of the calibration.
    """
    kept = folder / "directory.before"
    before = b""
    if directory is not None:
        before = _keep(directory, kept)
    worker = one_profile(await workers_of(door, caller.model), caller.model)
    site = RunningSite(caller, door, worker, directory, before)
    try:
        yield site
    finally:
        site.restore()
        kept.unlink(missing_ok=True)


def _keep(directory: Path, kept: Path) -> bytes:
    """The contents to put back: of before a calibration that was killed, if there was one."""
    try:
        before = kept.read_bytes() if kept.exists() else directory.read_bytes()
        write_whole(kept, before)
    except OSError as error:
        raise CommandError(f"--directory {directory}: {error.strerror}") from None
    return before
