"""Settings of the ratelimiter process."""

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from weir_core.config import ServiceSettings
from weir_ratelimiter.store.journal import FsyncPolicy


class RateLimiterSettings(ServiceSettings):
    """What the ratelimiter can be told.

    A decision is in the kernel before its reply: it survives kill -9 under every `fsync`. A
    power cut loses, under `interval`, what was decided since the last fsync, under `never`
    whatever the kernel had not written, and under `always` nothing.
    """

    model_config = SettingsConfigDict(env_prefix="WEIR_RATELIMITER__")

    address: str = Field("127.0.0.1:8002", description="host:port of the gRPC API")
    directory_address: str = Field(
        "127.0.0.1:8001", description="host:port that serves weir.directory.v1 (the gateway)"
    )
    envoy_address: str = Field(
        "", description="host:port on which Envoys may ask (docs/envoy.md); empty: none"
    )
    envoy_secret: SecretStr | None = Field(
        None, min_length=1, description="secret that Envoys must send; none: anyone may ask"
    )
    envoy_unknown_tenant: Literal["deny", "pass"] = Field(
        "deny", description="what becomes of an Envoy's request of no tenant of the directory"
    )
    store: SecretStr = Field(
        SecretStr("memory"),
        description="where limits are counted: memory, redis://user:password@host:port/db or "
        "redis+cluster://host:port",
    )
    store_namespace: str = Field(
        "",
        pattern=r"^[a-zA-Z0-9._-]{0,32}$",
        description="begins every key of a shared store, for several deployments on one; the "
        "same for all ratelimiters of a deployment",
    )
    store_timeout_s: float = Field(
        0.1, gt=0, le=10, description="of one call to a shared store, before it counts as away"
    )
    when_store_is_away: Literal["share", "closed"] = Field(
        "share", description="admit on this replica's share of the limits, or nothing"
    )
    degraded_budget_credit: float = Field(
        1.0, ge=0, le=100, description="percent of a budget that may be spent meanwhile"
    )
    least_replicas: int = Field(
        1, ge=1, le=1_000, description="ratelimiters to share with before any was counted"
    )
    most_pending: int = Field(
        100_000, ge=1, description="reservations kept to be told to the store afterwards"
    )
    journal: str = Field(".weir/journal", description="folder of the journal")
    fsync: FsyncPolicy = "interval"
    fsync_interval_s: float = Field(1.0, gt=0, le=60, description="seconds between fsyncs")
    compact_bytes: int = Field(
        64 * 1024 * 1024, ge=65_536, description="growth at which the journal is compacted"
    )
    ledger_url: SecretStr = Field(
        SecretStr(""),
        description="database of the ledger, such as postgresql://user:password@host/weir; "
        "empty: a SQLite file beside the journal",
    )
    ledger_most_events: int = Field(
        100_000, ge=1, description="events that may wait for the ledger before work is refused"
    )
    ttl_s: float = Field(30, ge=1, le=600, description="life of a lease without a heartbeat")
    sweep_interval_s: float = Field(1, gt=0, le=60, description="seconds between sweeps")
    remember_s: int = Field(
        24 * 3600, ge=60, description="how long the end of a request is remembered"
    )
    remember_most: int = Field(200_000, ge=1, description="how many ends are remembered")
