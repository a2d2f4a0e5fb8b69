"""Follows the product's autoscaler with simulated workers."""

from weir_scheduler.scaling.autoscaler import Autoscaler
from weir_scheduler.scaling.scaling_key import ScalingKey
from weir_sim.core.stage import Stage
from weir_sim.fleet.fleet import SimFleet
from weir_sim.fleet.worker import SimWorker
from weir_sim.setup import AutoscaleSpec


class Autoscaling:
    """Asks `Autoscaler` every interval, starts workers and retires the newest.

    Args:
        stage: the run.
        fleet: grows and shrinks.
        spec: of the workers, and how often.
    """

    def __init__(self, stage: Stage, fleet: SimFleet, spec: AutoscaleSpec) -> None:
        self._stage = stage
        self._fleet = fleet
        self._spec = spec
        self._key = ScalingKey(spec.worker.model, stage.setup.pool.name)
        self._autoscaler = Autoscaler(spec.rules)
        self._events: list[tuple[float, int]] = []

    @property
    def events(self) -> tuple[tuple[float, int], ...]:
        """Moment and new number of workers, whenever it changed."""
        return tuple(self._events)

    def start(self) -> None:
        """Sets the first decision."""
        self._set_next()

    def _set_next(self) -> None:
        at_us = self._stage.now_us + round(self._spec.interval_s * 1e6)
        self._stage.events.at(at_us, self._decide)

    def _decide(self) -> None:
        signals = self._stage.scheduler.scaling_signals([self._key.model]).get(self._key)
        if signals is not None:
            wanted = self._autoscaler.decide(signals, self._stage.clock.monotonic_us()).workers
            self._follow(wanted)
        self._set_next()

    def _follow(self, wanted: int) -> None:
        staying = [worker for worker in self._fleet.workers if self._stays(worker)]
        if wanted == len(staying):
            return
        self._events.append((self._stage.now_us / 1e6, wanted))
        for _ in range(wanted - len(staying)):
            self._fleet.add(self._spec.worker, self._spec.startup_s)
        # The newest first: their caches know least.
        for worker in reversed(staying[wanted:]):
            worker.retire()

    def _stays(self, worker: SimWorker) -> bool:
        return not worker.retiring and not worker.gone
