"""A simulated worker: an engine that registers, reports, drains, dies and returns."""

from collections.abc import Sequence
from functools import partial

from weir_core.errors import Reason
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import AttemptEnd
from weir_sim.core.stage import Stage
from weir_sim.fleet.engine import Engine, new_engine
from weir_sim.fleet.gateway import SimGateway
from weir_sim.fleet.kv_cache import KvCache
from weir_sim.fleet.reporter import Reporter
from weir_sim.fleet.sequence import SimSequence
from weir_sim.fleet.split_engine import SplitEngine, SplitMemory
from weir_sim.outcome import WorkerSummary
from weir_sim.setup import Batching, WorkerSpec


class SimWorker:
    """One worker of the fleet, as scheduler and gateway see it.

    Args:
        index: makes its id, `w0`, `w1`, ...
        spec: what it is.
        stage: the run.
        gateway: where its news go.
        start_us: how long it takes to start.
    """

    def __init__(
        self, index: int, spec: WorkerSpec, stage: Stage, gateway: SimGateway, start_us: int
    ) -> None:
        self.spec = spec
        self._start_us = start_us
        self.worker_id = f"w{index}"
        self.sequences: dict[AttemptKey, SimSequence] = {}
        self.finished: list[AttemptEnd] = []
        self.up = False
        self.draining = False
        self.retiring = False
        self.gone = False
        """Retired, and its work is done."""
        self._stage = stage
        self._gateway = gateway
        self._arrivals = 0
        self._up_us = self._up_since_us = 0
        self.engine: Engine | SplitEngine = self._new_engine()
        self.kv: KvCache | SplitMemory = self.engine.kv
        self._reporter = Reporter(self, stage)
        stage.rules.add_worker(self.worker_id, spec)
        gateway.workers[self.worker_id] = self

    def info(self) -> WorkerInfo:
        """Its registration."""
        spec = self.spec
        return WorkerInfo(
            worker_id=self.worker_id,
            address=f"{self.worker_id}:1",
            model=spec.model,
            profile=self.worker_id,
            max_context_tokens=spec.max_context_tokens,
            total_kv_blocks=self.kv.total,
            block_size=spec.block_size,
            max_concurrent_requests=spec.max_concurrent_requests,
            static_batching=spec.batching is Batching.STATIC,
            dedicated_tenant_id=spec.dedicated_tenant_id,
            start_us=self._start_us,
        )

    def start(self) -> None:
        """Registers, with an empty cache, for the first time or again."""
        if self.up or self.gone:
            return
        self.up, self.draining = True, False
        self._up_since_us = self._stage.now_us
        self._stage.tell().register_worker(self.info())
        self._reporter.start()

    def lose(self) -> None:
        """Dies: everything in it is gone, and its streams break."""
        if not self.up:
            return
        for sequence in self.engine.clear():
            self._stage.journal.left_worker(sequence)
            self._gateway.broke(sequence.key, Reason.WORKER_LOST)
        self.sequences.clear()
        self.finished.clear()
        self._down()

    def retire(self) -> None:
        """Drains, and ends when nothing is left; before it has started, at once."""
        self.retiring = True
        if self.up:
            self._stage.tell().drain_worker(self.worker_id)
        else:
            self.gone = True

    def set_draining(self, *, draining: bool) -> None:
        """See `WorkerEnd`."""
        self.draining = draining
        self._reporter.changed()
        self._end_if_drained()

    def arrive(self, key: AttemptKey) -> None:
        """See `WorkerEnd`."""
        if not self.up:
            self._gateway.broke(key, Reason.WORKER_LOST)
            return
        request = self._stage.journal.lives[key.request_id].request
        self._arrivals += 1
        weight = max(1, self._stage.rules.tenant(request.tenant_id).weight)
        sequence = SimSequence(key, request, weight, self._arrivals)
        self.sequences[key] = sequence
        self.engine.submit(sequence)
        self._reporter.changed()

    def abort(self, keys: Sequence[AttemptKey]) -> None:
        """See `WorkerEnd`."""
        for key in keys:
            sequence = self.sequences.get(key)
            if sequence is not None:
                self.engine.abort(sequence)

    def first_token(self, sequence: SimSequence) -> None:
        """See `EngineListener`."""
        self._gateway.first_token(sequence.key)

    def prefilled(self, sequence: SimSequence) -> bool:
        """See `EngineListener`: it goes on here."""
        return False

    def ended(self, sequence: SimSequence, *, completed: bool) -> None:
        """See `EngineListener`."""
        del self.sequences[sequence.key]
        usage = sequence.usage()
        self.finished.append(AttemptEnd(sequence.key, usage))
        self._stage.journal.left_worker(sequence)
        if completed:
            self._gateway.finished(sequence.key, usage)
        self._reporter.changed()
        self._end_if_drained()

    def stepped(self) -> None:
        """See `EngineListener`."""
        if self._stage.setup.checks:
            self.engine.check()
        self._reporter.stepped()

    def summary(self) -> WorkerSummary:
        """What it did."""
        engine = self.engine
        up_us = self._up_us + (self._stage.now_us - self._up_since_us if self.up else 0)
        return WorkerSummary(
            worker_id=self.worker_id,
            steps=engine.steps,
            busy_s=engine.busy_us / 1e6,
            up_s=up_us / 1e6,
            prefill_tokens=engine.prefill_tokens,
            decode_tokens=engine.decode_tokens,
            recomputed_tokens=engine.recomputed_tokens,
            cached_tokens=engine.cached_tokens,
            preemptions=engine.preemptions,
            attempts=self._arrivals,
            peak_held_blocks=self.kv.peak_held,
            kv_blocks=self.kv.total,
        )

    def _new_engine(self) -> Engine | SplitEngine:
        spec, stage = self.spec, self._stage
        granularity = stage.workload.prefix_granularity
        make = partial(new_engine, spec, granularity, stage.setup.cost, stage.events, stage.meter)
        return (
            make(self) if spec.split is None else SplitEngine(spec.split, make, stage.events, self)
        )

    def _end_if_drained(self) -> None:
        if self.retiring and self.draining and self.up and not self.sequences:
            self.gone = True
            self._down()

    def _down(self) -> None:
        self.up = False
        self._reporter.stop()
        self._up_us += self._stage.now_us - self._up_since_us
        stage = self._stage
        stage.events.at(
            stage.now_us + stage.link_us,
            lambda: stage.tell().worker_disconnected(self.worker_id),
        )
