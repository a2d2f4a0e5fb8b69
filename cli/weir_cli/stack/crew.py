"""The workers of one model on this machine: started, drained and let go one by one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from weir_cli.stack.child import ChildSpec, StartFailed
from weir_cli.stack.fleet_look import FleetOrders, Look
from weir_cli.stack.start_pause import StartPause
from weir_cli.stack.supervisor import Supervisor
from weir_core.tasks import end_task


class Crew:
    """Owns how many workers of a model there are; the supervisor owns their processes.

    A worker is never ended while it runs something: the scheduler drains it, and it leaves by
    itself. One that is wanted again before that is called back.

    Args:
        model: public name.
        specs: how each of its workers is started, by name, in order.
        supervisor: of the processes.
        orders: of the scheduler.
        say: gets lines for the person at the terminal.
    """

    def __init__(
        self,
        model: str,
        specs: Mapping[str, ChildSpec],
        supervisor: Supervisor,
        orders: FleetOrders,
        say: Callable[[str], None],
    ) -> None:
        self.model = model
        self._specs = specs
        self._supervisor = supervisor
        self._orders = orders
        self._say = say
        self._pause = StartPause()
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}

    @property
    def working(self) -> list[str]:
        """Workers that are kept up."""
        gone = {*self._starting, *self._leaving}
        return [name for name in self._specs if name in self._supervisor.pids and name not in gone]

    @property
    def count(self) -> int:
        """Workers that are there or come up; not those that leave."""
        return len(self.working) + len(self._starting)

    @property
    def starting(self) -> int:
        """Workers that come up."""
        return len(self._starting)

    @property
    def may_start(self) -> bool:
        """Whether starts are not paused after one that failed."""
        return self._pause.over

    async def grow(self, look: Look) -> str:
        """Calls one back that is about to leave, or starts one; its name, "" when none is left."""
        for name in list(self._leaving):
            if await self._call_back(name, look):
                return name
        absent = [name for name in self._specs if name not in self._supervisor.pids]
        free = [name for name in absent if name not in self._starting]
        if free and self.may_start:
            self._starting[free[0]] = asyncio.create_task(self._start(free[0]))
            return free[0]
        return ""

    async def shrink(self, look: Look) -> str:
        """Drains the one with the least to do; its name, "" when none could be told so."""
        for name in self._by_work(look):
            if await self._send_away(name, look):
                return name
        return ""

    async def remind(self, look: Look) -> None:
        """Says once more to those that leave: the scheduler may have been another one then."""
        for name in list(self._leaving):
            seen = look.workers.get(self._worker_id(name))
            if seen is not None and seen.state == "ready":
                await self._orders.drain(self._worker_id(name))

    async def stop(self) -> None:
        """Gives up what it waits for; the supervisor ends the processes."""
        tasks = [*self._starting.values(), *self._leaving.values()]
        await asyncio.gather(*map(end_task, tasks))

    async def _start(self, name: str) -> None:
        try:
            await self._supervisor.add(self._specs[name])
            self._pause.end()
            self._say(f"{name} is ready")
        except StartFailed as error:
            self._say(f"{error}; no other is started for {self._pause.begin():g} s")
        finally:
            del self._starting[name]

    async def _send_away(self, name: str, look: Look) -> bool:
        worker_id = self._worker_id(name)
        # First, or it would be restarted if it left at once.
        await self._supervisor.let_go(name)
        if worker_id in look.workers and not await self._orders.drain(worker_id):
            self._supervisor.keep(name)
            return False
        self._leaving[name] = asyncio.create_task(
            self._see_off(name, known=worker_id in look.workers)
        )
        return True

    async def _see_off(self, name: str, *, known: bool) -> None:
        """What the scheduler does not know runs nothing, and is ended at once."""
        try:
            if known:
                await self._supervisor.child(name).wait()
            await self._supervisor.forget(name)
            self._say(f"{name} has left")
        finally:
            del self._leaving[name]

    async def _call_back(self, name: str, look: Look) -> bool:
        worker_id = self._worker_id(name)
        if worker_id not in look.workers or not await self._orders.drain(worker_id, cancel=True):
            return False
        task = self._leaving.get(name)
        if task is None:  # it has left meanwhile
            return False
        await end_task(task)
        self._supervisor.keep(name)
        return True

    def _by_work(self, look: Look) -> Sequence[str]:
        """The unknown first, then by attempts; among equals the last one."""

        def work(name: str) -> tuple[int, int]:
            seen = look.workers.get(self._worker_id(name))
            return (seen.attempts if seen is not None else -1, -list(self._specs).index(name))

        return sorted(self.working, key=work)

    def _worker_id(self, name: str) -> str:
        return self._supervisor.child(name).ready.get("worker_id", "")
