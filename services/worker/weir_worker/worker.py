"""What a worker consists of once its engine has started."""

from collections.abc import Callable
from dataclasses import dataclass

from weir.scheduler.v1.worker_report_pb2 import WorkerParameters
from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.rpc.leader_epoch import LeaderEpoch
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.telemetry import Telemetry
from weir_worker.attempt_log import AttemptLog
from weir_worker.attempts import Attempts
from weir_worker.device import open_device
from weir_worker.device_metrics import DeviceCollector
from weir_worker.drain import Drain
from weir_worker.engine.client import EngineClient
from weir_worker.engine.events import StepOutput
from weir_worker.engine_metrics import EngineCollector
from weir_worker.execute_streams import ExecuteStreams
from weir_worker.grant_check import GrantCheck
from weir_worker.identity import WorkerIdentity, identify
from weir_worker.kv_map_report import KvMapReport
from weir_worker.load_report import LoadReport
from weir_worker.metrics import WorkerMetrics, streams_gauge
from weir_worker.prefix_report import PrefixReport
from weir_worker.request_traces import RequestTraces
from weir_worker.settings import WorkerSettings
from weir_worker.start_check import ServedModel, StartCheck
from weir_worker.terminal_records import TerminalRecords
from weir_worker.vllm_metrics import VllmMetrics

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Worker:
    """The parts behind the RPCs.

    Attributes:
        settings, engine, identity: what it is.
        attempts: what runs.
        streams: open `Execute` streams.
        drain: begins and ends drains.
        load: gauges for reports.
        kv: what each block holds.
        prefixes: what the cache holds, for reports.
        metrics: of the process.
    """

    settings: WorkerSettings
    engine: EngineClient
    identity: WorkerIdentity
    attempts: Attempts
    streams: ExecuteStreams
    drain: Drain
    load: LoadReport
    kv: KvMapReport
    prefixes: PrefixReport
    metrics: WorkerMetrics

    def on_output(self, output: StepOutput) -> None:
        """Passes the news of one step of the engine on."""
        self.prefixes.on_output(output)
        self.load.on_output(output)
        self.kv.on_output(output)
        self.attempts.on_step(output)
        self.metrics.on_step(output)

    def set_parameters(self, parameters: WorkerParameters) -> None:
        """Obeys the scheduler within the worker's own bounds; 0 keeps a value."""
        mine = self.settings
        if parameters.max_concurrent_requests > 0:
            self.attempts.max_running = min(
                mine.max_concurrent_requests, parameters.max_concurrent_requests
            )
        if parameters.max_step_tokens > 0:
            rows = min(mine.max_step_tokens, parameters.max_step_tokens)
            try:
                # Every running sequence needs a row in a step.
                self.engine.set_limits(
                    max_step_tokens=rows, max_running=min(mine.max_running, rows)
                )
            except WeirError as error:
                _log.warning("parameters_refused", why=error.message)


def assemble(
    settings: WorkerSettings,
    engine: EngineClient,
    telemetry: Telemetry,
    clock: Clock,
    *,
    worker_id: str,
    address: str,
    start_us: int,
    leader: LeaderEpoch,
    on_drain_change: Callable[[], object],
    on_left: Callable[[str], object],
) -> Worker:
    """Puts the parts together for an engine that has started.

    Args:
        address: `host:port` on which the server is bound.
        start_us: how long it took to come up, microseconds.
        leader: newest term of an active scheduler.
        on_drain_change, on_left: see `Drain`.
    """
    device = open_device(engine.ready.device, settings.tensor_parallel_size)
    identity = identify(
        settings, engine.ready, device, worker_id=worker_id, address=address, start_us=start_us
    )
    attempts = _attempts(settings, engine, identity, clock, leader)
    metrics = WorkerMetrics(telemetry.registry)
    EngineCollector(telemetry.registry, engine, clock)
    load = LoadReport(engine, device, clock)
    DeviceCollector(telemetry.registry, identity, load.read)
    attempts.observers.add(metrics)
    if settings.vllm_metrics:
        attempts.observers.add(VllmMetrics(telemetry.registry, engine, identity.model))
    attempts.observers.add(AttemptLog())
    attempts.observers.add(
        RequestTraces(telemetry.tracing, worker_id=worker_id, model=identity.model)
    )
    interval_s = settings.stream_interval_ms / 1_000
    streams = ExecuteStreams(attempts, settings.stream_options(), interval_s)
    streams_gauge(telemetry.registry, lambda: len(streams))
    return Worker(
        settings=settings,
        engine=engine,
        identity=identity,
        attempts=attempts,
        streams=streams,
        drain=Drain(attempts, on_change=on_drain_change, on_left=on_left),
        load=load,
        kv=KvMapReport(engine, clock),
        prefixes=PrefixReport(),
        metrics=metrics,
    )


def _attempts(
    settings: WorkerSettings,
    engine: EngineClient,
    identity: WorkerIdentity,
    clock: Clock,
    leader: LeaderEpoch,
) -> Attempts:
    token = settings.cluster_token
    model = ServedModel(
        name=identity.model,
        vocab_size=engine.ready.vocab_size,
        max_context=engine.ready.max_context,
        tokenizer_fingerprint=engine.ready.tokenizer_fingerprint,
        only_tenant=settings.dedicated_tenant_id,
        embeddings=engine.ready.embeddings,
    )
    grants = GrantCheck(
        identity.worker_id,
        None if token is None else token.get_secret_value().encode(),
        clock,
        required=bool(settings.scheduler_address),
        leader=leader,
    )
    return Attempts(
        engine,
        StartCheck(model, clock),
        grants,
        TerminalRecords(clock, keep_s=settings.record_keep_s),
        worker_id=identity.worker_id,
        clock=clock,
        max_running=settings.max_concurrent_requests,
    )
