"""Settings of the scheduler process."""

from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from weir_core.config import ServiceSettings
from weir_core.rpc.framed import FramedOptions
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.leadership.lease import LeaseTimes
from weir_scheduler.scaling_settings import ScalingSettings

_SECOND_US = 1_000_000


class SchedulerSettings(ServiceSettings):
    """What the scheduler can be told; what concerns models and tenants is in the directory."""

    model_config = SettingsConfigDict(env_prefix="WEIR_SCHEDULER__")

    address: str = Field("127.0.0.1:8003", description="host:port of the gRPC API")
    directory_address: str = Field(
        "127.0.0.1:8001", description="host:port that serves weir.directory.v1 (the gateway)"
    )
    max_attempts: int = Field(3, ge=1, le=10, description="dispatches of one request")
    max_queued_requests: int = Field(100_000, ge=1, description="waiting requests in all")
    max_queued_requests_per_tenant: int = Field(
        1_000, ge=1, description="waiting requests of a tenant whose policy names no number"
    )
    no_worker_s: float = Field(
        10, gt=0, le=3_600, description="wait of an interactive request while no worker serves it"
    )
    report_interval_s: float = Field(1, gt=0, le=60, description="asked of the workers")
    worker_loss_s: float = Field(5, gt=0, le=300, description="silence of a lost worker")
    step_suspect_s: float = Field(
        5, gt=0, le=600, description="age of the last engine step from which no new work is sent"
    )
    step_loss_s: float = Field(
        30, gt=0, le=600, description="age of the last engine step of a lost worker"
    )
    heartbeat_s: float = Field(5, gt=0, description="ping of idle streams")
    silence_s: float = Field(15, gt=0, description="a peer that was silent for so long is lost")

    leader_store: SecretStr = Field(
        SecretStr(""),
        description="where schedulers agree which of them is active: "
        "redis://user:password@host:port/db, or file:///path for those of one machine; empty: "
        "this is the only scheduler",
    )
    leader_key: str = Field(
        "weir:scheduler:leader",
        min_length=1,
        max_length=200,
        description="key in the leader store; the same for all schedulers of a deployment",
    )
    leader_ttl_s: float = Field(
        5,
        ge=0.4,
        le=300,
        description="an active scheduler that dies, stands still or cannot reach the leader store "
        "is replaced within so long; the same for all",
    )
    advertise_address: str = Field(
        "",
        description="host:port under which gateways and workers know this scheduler, a hint for "
        "those that ask another one; empty: the bound address",
    )
    takeover_s: float = Field(
        2,
        ge=0,
        le=60,
        description="a scheduler that becomes active dispatches nothing before the gateways and "
        "workers of the one before have come, or so long",
    )

    scaling: ScalingSettings = ScalingSettings()
    keda: bool = Field(
        False,
        description="serve KEDA's external scaler at `address`, to callers without the cluster "
        "secret, which KEDA cannot send",
    )
    keda_secret: SecretStr | None = Field(
        None,
        description="what KEDA's triggers must hold as `secretFromEnv`; none: everybody may ask",
    )

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        self.stream_options()
        if self.worker_loss_s < 2 * self.report_interval_s:
            raise ValueError(
                f"worker_loss_s is {self.worker_loss_s}; it must be at least twice "
                f"report_interval_s ({self.report_interval_s}), or one late report loses the worker"
            )
        if self.step_loss_s < self.step_suspect_s:
            raise ValueError(
                f"step_loss_s is {self.step_loss_s}; it must be at least step_suspect_s "
                f"({self.step_suspect_s})"
            )
        return self

    def bounds(self) -> Bounds:
        """Of waits and counts."""
        return Bounds(
            max_attempts=self.max_attempts,
            max_queued_requests=self.max_queued_requests,
            max_queued_per_tenant=self.max_queued_requests_per_tenant,
            no_worker_us=round(self.no_worker_s * _SECOND_US),
            report_interval_us=round(self.report_interval_s * _SECOND_US),
            loss_us=round(self.worker_loss_s * _SECOND_US),
            step_suspect_us=round(self.step_suspect_s * _SECOND_US),
            step_loss_us=round(self.step_loss_s * _SECOND_US),
        )

    def stream_options(self) -> FramedOptions:
        """Bounds of the streams of gateways and workers.

        With a lease, peers take silence of its length for the loss of the scheduler.
        """
        heartbeat_s = self.heartbeat_s
        if self.leader_store.get_secret_value():
            heartbeat_s = min(heartbeat_s, self.leader_ttl_s / 4)
        return FramedOptions(heartbeat_s=heartbeat_s, silence_s=self.silence_s)

    def lease_times(self) -> LeaseTimes:
        """Of the lease."""
        return LeaseTimes(round(self.leader_ttl_s * _SECOND_US))
