"""The files of a gateway's tenants, wired."""

from starlette.routing import BaseRoute

from weir_core.clock import Clock
from weir_core.repeating import Repeating
from weir_gateway.files.file_remover import FileRemover
from weir_gateway.files.file_store import FileStore
from weir_gateway.files.pages import FilePages
from weir_gateway.files.uploader import Uploader
from weir_gateway.flow.reception import Reception
from weir_gateway.state.state import State

_SWEEP_S = 60.0


class FileRoom:
    """Store, pages and sweep of files.

    Args:
        state: where they are kept.
        reception, clock, stall_s: see `FilePages`.
    """

    def __init__(self, *, state: State, reception: Reception, clock: Clock, stall_s: float) -> None:
        self.store = FileStore(state, clock)
        self._state = state
        remover = FileRemover(state, self.store, clock)
        self._sweep = Repeating("file_sweep", remover.sweep, _SWEEP_S)
        self._pages = FilePages(
            reception=reception,
            store=self.store,
            remover=remover,
            uploader=Uploader(self.store, remover),
            clock=clock,
            stall_s=stall_s,
        )

    def routes(self) -> list[BaseRoute]:
        """Of the HTTP door."""
        return list(self._pages.routes())

    def start(self) -> None:
        """Begins to sweep."""
        if self._state.on:
            self._sweep.start()

    async def stop(self) -> None:
        """Ends what runs."""
        await self._sweep.stop()
