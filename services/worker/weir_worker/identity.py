"""What this worker is: its registration and its model info."""

from collections.abc import Iterable
from dataclasses import dataclass

from weir.common.v1.lifecycle_pb2 import Attempt
from weir.scheduler.v1.worker_report_pb2 import Batching, WorkerRegistration
from weir.worker.v1.worker_service_pb2 import GetModelInfoResponse
from weir_worker.device import Device
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.events import Ready
from weir_worker.settings import WorkerSettings

ENGINE = "tokenweir"
REMOTE_ENGINE = "openai"


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Fixed facts of one process.

    Attributes:
        worker_id: unique for each start.
        address: `host:port` for gateways.
        model: public name.
        profile: key of parameters.
        device_name: id of the device.
        settings: of the process.
        ready: what the engine said when it had started.
        start_us: how long it took to come up, microseconds.
    """

    worker_id: str
    address: str
    model: str
    profile: str
    device_name: str
    settings: WorkerSettings
    ready: Ready
    start_us: int = 0

    def registration(self, running: Iterable[Attempt]) -> WorkerRegistration:
        """The registration, with the attempts that run already."""
        ready, settings = self.ready, self.settings
        message = WorkerRegistration(
            worker_id=self.worker_id,
            address=self.address,
            model=self.model,
            model_version=settings.model_version,
            profile=self.profile,
            max_context_tokens=ready.max_context,
            total_kv_blocks=ready.num_blocks,
            block_size=ready.block_size,
            max_concurrent_requests=settings.max_concurrent_requests,
            batching=Batching.Value(f"BATCHING_{settings.upstream_batching.upper()}"),
            batch_invariant=ready.batch_invariant,
            gpu_id=self.device_name,
            tokenizer_fingerprint=ready.tokenizer_fingerprint,
            dedicated_tenant_id=settings.dedicated_tenant_id,
            running=running,
            embeddings=ready.embeddings,
        )
        message.start_duration.FromMicroseconds(self.start_us)
        return message

    def model_info(self, running: Iterable[Attempt]) -> GetModelInfoResponse:
        """The answer to `GetModelInfo`."""
        ready = self.ready
        return GetModelInfoResponse(
            registration=self.registration(running),
            vocab_size=ready.vocab_size,
            kv_bytes_per_token=ready.kv_bytes_per_token,
            engine=REMOTE_ENGINE if self.settings.upstream_url else ENGINE,
            attention_backend=ready.attention_backend,
            dtype=ready.dtype,
        )


def identify(
    settings: WorkerSettings,
    ready: Ready,
    device: Device,
    *,
    worker_id: str,
    address: str,
    start_us: int = 0,
) -> WorkerIdentity:
    """Fills what the settings leave open."""
    engine = _engine(settings)
    return WorkerIdentity(
        worker_id=worker_id,
        address=settings.advertised_address or address,
        model=settings.model_name or ready.model,
        profile=settings.profile or f"{device.profile}-{ready.dtype}-{engine}-tp1",
        device_name=settings.gpu_id or device.name,
        settings=settings,
        ready=ready,
        start_us=start_us,
    )


def _engine(settings: WorkerSettings) -> str:
    if settings.upstream_url:
        return REMOTE_ENGINE
    return NULL_MODEL if settings.model == NULL_MODEL else ENGINE
