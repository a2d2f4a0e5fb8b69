"""Measures what the journal does not have yet, with the right values in force."""

from collections.abc import Awaitable, Callable, Sequence

from weir_cli.calibration.journal import Journal
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.meter import Meter
from weir_cli.calibration.plan import Cell
from weir_cli.calibration.progress import CalibrationProgress
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.calibration.site import Site
from weir_cli.load.load_request import LoadRequest


class Recorder:
    """Every method gives the measurement of that name, known or made now.

    Args:
        site: where.
        journal: of what is known already.
        meter: that measures.
        progress: told of every measurement; `expected_s` is what it counts for.
    """

    def __init__(
        self, site: Site, journal: Journal, meter: Meter, progress: CalibrationProgress
    ) -> None:
        self.site = site
        self.progress = progress
        self._journal = journal
        self._meter = meter
        self._in_force: ChosenSettings | None = None

    async def wave(self, name: str, cell: Cell, streams: int, expected_s: float) -> Measurement:
        """So many equal requests, begun together."""
        return await self.row(name, cell, streams, streams, expected_s)

    async def row(
        self, name: str, cell: Cell, streams: int, requests: int, expected_s: float
    ) -> Measurement:
        """So many equal requests, some of them at once."""
        return await self._recorded(
            name, expected_s, lambda: self._meter.closed(name, cell, streams, requests=requests)
        )

    async def closed(
        self, name: str, cell: Cell, streams: int, seconds: float, expected_s: float
    ) -> Measurement:
        """Equal requests, so many at once, begun within a time."""
        return await self._recorded(
            name, expected_s, lambda: self._meter.closed(name, cell, streams, seconds=seconds)
        )

    async def answers(self, name: str, bound: int, expected_s: float) -> Measurement:
        """Answers that end by themselves."""
        return await self._recorded(name, expected_s, lambda: self._meter.natural(name, bound))

    async def offered(
        self,
        name: str,
        load: Sequence[LoadRequest],
        settings: ChosenSettings,
        expected_s: float,
    ) -> Measurement:
        """A load at its own moments, with these values in force."""
        return await self._recorded(
            name, expected_s, lambda: self._meter.offered(name, load), settings
        )

    async def _recorded(
        self,
        name: str,
        expected_s: float,
        measure: Callable[[], Awaitable[Measurement]],
        settings: ChosenSettings | None = None,
    ) -> Measurement:
        known = self._journal.measured.get(name)
        if known is not None:
            self.progress.credit(expected_s)
            return known
        with self.progress.part(name, expected_s):
            await self._put_in_force(settings or self.site.standing)
            measured = await measure()
            self._journal.add(measured)
        return measured

    async def _put_in_force(self, settings: ChosenSettings) -> None:
        if self.site.changeable and settings != self._in_force:
            await self.site.apply(settings)
            self._in_force = settings
