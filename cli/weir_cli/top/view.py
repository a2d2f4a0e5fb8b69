"""Runs the view until it is ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_cli.stack.running import Door
from weir_cli.top.board import Board
from weir_cli.top.controls import Controls
from weir_cli.top.keys import keys
from weir_cli.top.screen import draw
from weir_cli.top.watching import watch

_FIRST = 2
"""Samples of a single look: rates of workers need two."""


class View:
    """The board of one deployment.

    Args:
        door: of its gateway.
        board: as it is asked for.
        step_s: between two samples.
    """

    def __init__(self, door: Door, board: Board, step_s: float) -> None:
        self._door = door
        self._board = board
        self._step_s = step_s
        self._controls = Controls(board)
        self._away = ""

    async def once(self, console: Console) -> None:
        """Prints it after two samples. Raises CommandError."""
        seen = 0
        async with aclosing(self._samples()) as samples:
            async for sample in samples:
                if isinstance(sample, HistorySample):
                    self._board.add(sample)
                    seen += 1
                if seen >= _FIRST:
                    break
        console.print(draw(self._board, title=self._door.address, hint=""))

    async def live(self, console: Console) -> None:
        """Shows it until a key or a signal ends it. Raises CommandError."""
        with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            self._show(live)
            follow = asyncio.create_task(self._follow(live))
            listen = asyncio.create_task(self._listen(live, pressed))
            done, late = await asyncio.wait((follow, listen), return_when=asyncio.FIRST_COMPLETED)
            for task in late:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        for task in done:
            task.result()

    async def _follow(self, live: Live) -> None:
        async with aclosing(self._samples()) as samples:
            async for sample in samples:
                self._away = sample if isinstance(sample, str) else ""
                if isinstance(sample, HistorySample):
                    self._board.add(sample)
                self._show(live)

    async def _listen(self, live: Live, pressed: "asyncio.Queue[str]") -> None:
        while not self._controls.ended:
            self._controls.press(await pressed.get())
            self._show(live)

    def _samples(self) -> AsyncGenerator[HistorySample | str, None]:
        return watch(self._door, self._step_s)

    def _show(self, live: Live) -> None:
        hint = self._controls.hint
        shown = draw(self._board, title=self._door.address, **({"hint": hint} if hint else {}))
        if self._away:
            shown = Text(self._away, style="bold red")
        live.update(shown, refresh=True)
