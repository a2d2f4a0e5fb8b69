"""Starts service processes together, keeps them up, and ends them in order."""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import groupby

from weir_cli.stack.child import Child, ChildSpec, StartFailed
from weir_core.tasks import end_task

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 10.0
# A process that lived this long had no trouble starting; its next end begins a new count.
_SETTLED_S = 60.0
_PATIENCE_S = 10.0


class Supervisor:
    """Owns one child process per spec.

    Args:
        specs: what to run; children of a higher `stage` are ended before those of a lower one.
        say: gets each line for the person at the terminal.
        start_deadline_s: seconds within which each child must say that it is ready.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        say: Callable[[str], None],
        *,
        start_deadline_s: float = 120.0,
    ) -> None:
        self._children = {spec.name: Child(spec) for spec in specs}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._say = say
        self._start_deadline_s = start_deadline_s

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the children by name, as they run now."""
        return {name: child.pid for name, child in self._children.items()}

    def child(self, name: str) -> Child:
        """The child of that name as it runs now."""
        return self._children[name]

    async def start(self) -> None:
        """Starts all together; returns when each is ready.

        Raises StartFailed for the first that fails. Call `stop` in either case.
        """
        starts = [asyncio.create_task(self._start_first(name)) for name in self._children]
        try:
            for start in asyncio.as_completed(starts):
                await start
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def keep_up(self) -> None:
        """Restarts whatever ends, with back-off and a line that says so; until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for name in self._children:
                    self.keep(name)
                await asyncio.Event().wait()
        finally:
            self._group = None
            self._keepers.clear()

    async def add(self, spec: ChildSpec) -> Child:
        """Starts one more; it is kept up as the others are.

        Raises StartFailed: then it is not there. If this is cancelled, `stop` ends it.
        """
        child = self._children[spec.name] = Child(spec)
        try:
            await child.start(self._start_deadline_s)
        except StartFailed:
            await child.stop()
            del self._children[spec.name]
            raise
        self.keep(spec.name)
        return child

    def keep(self, name: str) -> None:
        """Restarts a child if it ends, from now on."""
        if self._group is not None and name not in self._keepers:
            self._keepers[name] = self._group.create_task(self._keep_up(name), name=name)

    async def let_go(self, name: str) -> None:
        """Does not restart a child any more; it goes on until it ends by itself."""
        keeper = self._keepers.pop(name, None)
        if keeper is not None:
            await end_task(keeper)

    async def forget(self, name: str) -> None:
        """Takes a child out of the list that has ended; one that lives is ended by SIGTERM."""
        await self.let_go(name)
        child = self._children.get(name)
        if child is not None:
            await self._stop(child)
            del self._children[name]

    async def stop(self) -> None:
        """Ends all children, stage by stage, each within its `drain_s`."""
        by_stage = sorted(self._children.values(), key=lambda child: -child.spec.stage)
        for _, stage in groupby(by_stage, key=lambda child: child.spec.stage):
            await asyncio.gather(*(self._stop(child) for child in stage))

    async def kill(self) -> None:
        """Ends all children at once."""
        await asyncio.gather(*(child.kill() for child in self._children.values()))

    async def _start_first(self, name: str) -> None:
        began = time.monotonic()
        start = asyncio.ensure_future(self._children[name].start(self._start_deadline_s))
        try:
            while not (await asyncio.wait({start}, timeout=_PATIENCE_S))[0]:
                self._say(f"  {name} is still starting ({time.monotonic() - began:.0f} s)")
            start.result()
        finally:
            start.cancel()
        self._say(f"  {name} is ready after {time.monotonic() - began:.1f} s")

    async def _keep_up(self, name: str) -> None:
        delay_s = _FIRST_DELAY_S
        while True:
            began = time.monotonic()
            status = await self._children[name].wait()
            if time.monotonic() - began >= _SETTLED_S:
                delay_s = _FIRST_DELAY_S
            what = f"{name} ended ({_cause(status)}; log: {self._children[name].spec.log})"
            while what:
                self._say(f"{what}; restarting in {delay_s:g} s")
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _LONGEST_DELAY_S)
                what = await self._restart(name)
            self._say(f"{name} is back")

    async def _restart(self, name: str) -> str:
        """Starts a new process in the place of one that ended; returns why it failed, or ""."""
        await self._children[name].stop()
        child = Child(self._children[name].spec)
        self._children[name] = child
        try:
            await child.start(self._start_deadline_s)
        except StartFailed as error:
            await child.stop()
            return str(error)
        return ""

    async def _stop(self, child: Child) -> None:
        if not await child.stop():
            name, drain_s = child.spec.name, child.spec.drain_s
            self._say(f"{name} did not end within {drain_s:g} s and was killed")


def _cause(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
