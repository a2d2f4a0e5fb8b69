"""The worker's load, as the scheduler and `GetLoad` read it."""

from google.protobuf.duration_pb2 import Duration

from weir.scheduler.v1.worker_report_pb2 import WorkerLoad
from weir_core.clock import Clock
from weir_worker.device import Device, DeviceUse
from weir_worker.engine.client import EngineClient
from weir_worker.engine.events import StepOutput, TenantKv
from weir_worker.engine.load import Counters
from weir_worker.foreign_use import ForeignUse, foreign_reader

DEVICE_INTERVAL_US = 500_000


class LoadReport:
    """Reads the engine's latest gauges and the device.

    An engine elsewhere has no KV of its own here, and it is not known which processes are its.

    Args:
        engine: started.
        device: what the model runs on.
        clock: stamps the report.
    """

    def __init__(self, engine: EngineClient, device: Device, clock: Clock) -> None:
        self._engine = engine
        self._device = device
        self._clock = clock
        self._used: DeviceUse | None = None
        self._used_us = 0
        self._tenants: list[TenantKv] = []
        self._foreign = foreign_reader(
            device, engine.ready.pid, remote=not engine.ready.kv_bytes_per_token
        )
        self._foreign_use = ForeignUse()

    def on_output(self, output: StepOutput) -> None:
        """Takes the tenants' blocks, which come twice a second."""
        if output.tenants is not None:
            self._tenants = output.tenants

    def read(self, *, tenants: bool = False) -> WorkerLoad:
        """The load of now; with that of the `tenants` that have most, if asked for."""
        load = WorkerLoad(step_age=_duration(round(self._engine.health.age_s * 1e6)))
        load.report_time.FromMicroseconds(self._clock.now_us())
        self._read_engine(load)
        use = self._device_use()
        load.device_utilisation_millis = use.utilisation_millis
        load.device_memory_used_bytes = use.memory_used
        load.device_memory_total_bytes = use.memory_total
        self._read_foreign(load)
        for one in self._tenants if tenants else ():
            load.tenants.add(
                tenant_id=one.tenant,
                running_blocks=one.running,
                pinned_blocks=one.pinned,
                cached_blocks=one.cached,
            )
        return load

    def _device_use(self) -> DeviceUse:
        """A reading at most `DEVICE_INTERVAL_US` old: it costs system calls."""
        now_us = self._clock.monotonic_us()
        if self._used is None or now_us - self._used_us >= DEVICE_INTERVAL_US:
            self._used, self._used_us = self._device.use(), now_us
            self._foreign_use = self._foreign.read()
        return self._used

    def _read_engine(self, load: WorkerLoad) -> None:
        ready, gauges = self._engine.ready, self._engine.load
        counters = gauges.counters
        block_bytes = ready.kv_bytes_per_token * ready.block_size
        load.free_kv_blocks = gauges.free_blocks
        if not gauges.total_blocks and self._engine.health.alive:
            # Started, and nothing heard yet: an idle engine speaks twice a second.
            load.free_kv_blocks = ready.num_blocks
        load.cached_kv_blocks = gauges.cached_blocks
        load.held_kv_blocks = gauges.held_blocks
        load.pinned_kv_blocks = gauges.pinned_blocks
        load.stranded_kv_tokens = gauges.stranded_tokens
        load.running_requests = gauges.running
        load.waiting_requests = gauges.waiting
        load.pending_prefill_tokens = gauges.pending_prefill_tokens
        load.step_time.CopyFrom(_duration(gauges.step_us))
        load.kv_bytes_used = gauges.held_blocks * block_bytes
        load.prefix_queries_total = counters.prefix_queries + counters.session_queries
        load.prefix_hits_total = counters.prefix_hits + counters.session_hits
        load.preemptions_total = counters.preemptions
        load.evictions_total = counters.evictions
        load.max_step_tokens = ready.max_step_tokens
        self._read_work(load, counters)

    def _read_work(self, load: WorkerLoad, counters: Counters) -> None:
        load.steps_total = counters.steps
        load.prefill_tokens_total = counters.prefill_tokens
        load.decode_tokens_total = counters.decode_tokens
        load.recomputed_tokens_total = counters.recomputed_tokens
        load.prefill_time_total.CopyFrom(_duration(counters.prefill_us))
        load.decode_time_total.CopyFrom(_duration(counters.decode_us))

    def _read_foreign(self, load: WorkerLoad) -> None:
        use = self._foreign_use
        load.foreign_utilisation_millis = use.utilisation_millis
        load.foreign_memory_bytes = use.memory
        if use.wait_us >= 0:
            load.processor_wait_total.CopyFrom(_duration(use.wait_us))


def _duration(us: int) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(us)
    return duration
