"""Follows the scheduler's recommendation with real workers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from weir_cli.stack import memory
from weir_cli.stack.child import ChildSpec
from weir_cli.stack.crew import Crew
from weir_cli.stack.fleet_look import FleetOrders, Look, Wanted
from weir_cli.stack.supervisor import Supervisor
from weir_cli.stack.worker_range import WorkerRange

_INTERVAL_S = 1.0
_SPARE_BYTES = 256 * 1024 * 1024


class Elasticity:
    """Starts and drains workers of every model, between the bounds that were given.

    Args:
        crews: one for each model.
        bounds: of each.
        orders: of the scheduler.
        need: memory that one more worker of a crew takes, bytes; None: unknown.
        available: memory that is left, bytes; None: unknown.
        say: gets lines for the person at the terminal.
    """

    def __init__(
        self,
        crews: Sequence[Crew],
        bounds: WorkerRange,
        orders: FleetOrders,
        say: Callable[[str], None],
        *,
        need: Callable[[Crew], int | None],
        available: Callable[[], int | None] = memory.available_bytes,
        interval_s: float = _INTERVAL_S,
    ) -> None:
        self._crews = crews
        self._bounds = bounds
        self._orders = orders
        self._say = say
        self._need = need
        self._available = available
        self._interval_s = interval_s
        self._held_back: set[str] = set()

    async def run(self) -> None:
        """Until cancelled; the processes are left to the supervisor."""
        try:
            while True:
                look = await self._orders.look()
                if look is not None:
                    for crew in self._crews:
                        await self._follow(crew, look)
                await asyncio.sleep(self._interval_s)
        finally:
            for crew in self._crews:
                await crew.stop()

    async def _follow(self, crew: Crew, look: Look) -> None:
        await crew.remind(look)
        wanted = look.wanted.get(crew.model)
        if wanted is None:
            return
        most = max(self._bounds.least, min(self._bounds.most, wanted.workers))
        before, changed = crew.count, []
        while crew.count < most and self._has_room(crew) and (name := await crew.grow(look)):
            changed.append(name)
        # One that comes up cannot be taken back, and counts.
        while crew.count > most and (name := await crew.shrink(look)):
            changed.append(name)
        if changed:
            self._tell(crew, before, changed, wanted)

    def _tell(self, crew: Crew, before: int, changed: Sequence[str], wanted: Wanted) -> None:
        what = "starting" if crew.count > before else "draining"
        self._say(
            f"{crew.model}: {before} -> {crew.count} workers ({wanted.why}); "
            f"{what} {', '.join(changed)}"
        )

    def _has_room(self, crew: Crew) -> bool:
        """Whether memory suffices for one more; says once that it does not."""
        need, left = self._need(crew), self._available()
        if need is None or left is None:
            return True
        # Those that come up have not taken theirs yet.
        enough = left - crew.starting * need >= need + _SPARE_BYTES
        if enough:
            self._held_back.discard(crew.model)
        elif crew.model not in self._held_back:
            self._held_back.add(crew.model)
            self._say(
                f"{crew.model}: no further worker, it would take {need >> 20} MiB and "
                f"{_SPARE_BYTES >> 20} MiB are to stay free, of {left >> 20} MiB"
            )
        return enough


def elasticity_of(
    specs: Mapping[str, Mapping[str, ChildSpec]],
    bounds: WorkerRange,
    supervisor: Supervisor,
    orders: FleetOrders,
    say: Callable[[str], None],
) -> Elasticity:
    """For a stack of this machine: `specs` of each model's workers, by model and name."""

    def need(crew: Crew) -> int | None:
        """As much as the largest of its workers has by now."""
        pids = [supervisor.pids[name] for name in crew.working]
        used = [size for pid in pids if (size := memory.used_bytes(pid)) is not None]
        return max(used, default=None)

    crews = [Crew(model, own, supervisor, orders, say) for model, own in specs.items()]
    return Elasticity(crews, bounds, orders, say, need=need)
