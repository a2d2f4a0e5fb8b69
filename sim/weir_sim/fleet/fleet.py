"""The workers of a run, and what happens to them."""

from collections.abc import Callable

from weir_sim.core.stage import Stage
from weir_sim.fleet.gateway import SimGateway
from weir_sim.fleet.worker import SimWorker
from weir_sim.outcome import WorkerSummary
from weir_sim.setup import FleetChange, FleetEvent, WorkerSpec


class SimFleet:
    """Starts workers, and carries out the events of the setup.

    Args:
        stage: the run.
        gateway: where workers' news go.
    """

    def __init__(self, stage: Stage, gateway: SimGateway) -> None:
        self._stage = stage
        self._gateway = gateway
        self.workers: list[SimWorker] = []

    def start(self) -> None:
        """Sets the starts of all workers and the events of the setup."""
        for spec in self._stage.setup.workers:
            self.add(spec, spec.start_s)
        for event in self._stage.setup.events:
            self._stage.events.at(round(event.at_s * 1e6), self._change(event))

    def add(self, spec: WorkerSpec, in_s: float) -> SimWorker:
        """Adds a worker that registers in so many seconds."""
        start_us = round(in_s * 1e6)
        worker = SimWorker(len(self.workers), spec, self._stage, self._gateway, start_us)
        self.workers.append(worker)
        self._stage.events.at(self._stage.now_us + start_us, worker.start)
        return worker

    def sync(self) -> None:
        """Takes over the effect of every step that has ended by now."""
        for worker in self.workers:
            worker.engine.sync()

    def summaries(self) -> tuple[WorkerSummary, ...]:
        """What each worker did."""
        return tuple(worker.summary() for worker in self.workers)

    def _change(self, event: FleetEvent) -> Callable[[], None]:
        worker, stage = self.workers[event.worker], self._stage
        changes: dict[FleetChange, Callable[[], None]] = {
            FleetChange.LOSE: worker.lose,
            FleetChange.RETURN: worker.start,
            FleetChange.DRAIN: lambda: _drain(stage, worker, cancel=False),
            FleetChange.UNDRAIN: lambda: _drain(stage, worker, cancel=True),
        }
        return changes[event.change]


def _drain(stage: Stage, worker: SimWorker, *, cancel: bool) -> None:
    stage.tell().drain_worker(worker.worker_id, cancel=cancel)
