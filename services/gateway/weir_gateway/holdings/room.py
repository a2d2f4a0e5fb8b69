"""The counts of what tenants hold, kept right."""

from weir_core.repeating import Repeating
from weir_gateway.holdings.recount import Recount
from weir_gateway.state.state import State

_EVERY_S = 3_600.0


class HoldingRoom:
    """Counts anew now and then.

    Args:
        state: the database.
    """

    def __init__(self, state: State) -> None:
        self._on = state.on
        self._loop = Repeating("holding_recount", Recount(state).run, _EVERY_S)

    def start(self) -> None:
        """Begins, if there is a database."""
        if self._on:
            self._loop.start()

    async def stop(self) -> None:
        """Ends it."""
        await self._loop.stop()
