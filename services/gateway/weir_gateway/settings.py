"""Settings of a gateway process."""

import os
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from weir_core.config import ServiceSettings, SettingsGroup
from weir_gateway.admin.secret import VARIABLE
from weir_gateway.console.settings import ConsoleSettings


def _admin_secret() -> SecretStr | None:
    value = os.environ.get(VARIABLE, "")
    return SecretStr(value) if value else None


class EdgeTlsSettings(SettingsGroup):
    """TLS for clients, at http_address and grpc_address; empty: plain."""

    certificate: str = Field(
        default="", description="PEM file of the own certificate, intermediates after it"
    )
    key: str = Field(default="", description="PEM file of its private key, not encrypted")
    client_ca: str = Field(
        default="",
        description="PEM file; clients must then show a certificate that it signed, beside the "
        "API key",
    )


class GatewaySettings(ServiceSettings):
    """What a gateway serves, and whom it asks."""

    model_config = SettingsConfigDict(env_prefix="WEIR_GATEWAY__")

    role: Literal["both", "edge", "control"] = Field(
        "both", description="control serves the directory, edge serves clients"
    )
    http_address: str = Field(
        "127.0.0.1:8000", description="host:port of the HTTP API, health and /metrics"
    )
    grpc_address: str = Field("127.0.0.1:8001", description="host:port of the gRPC API")
    edge_tls: EdgeTlsSettings = Field(
        default=EdgeTlsSettings(), description="TLS for clients (docs/security.md)"
    )
    internal_address: str = Field(
        "",
        description="host:port of the directory for the other services, apart from the clients' "
        "grpc_address; needed with tls or edge_tls, unless role is edge",
    )
    peer_address: str = Field(
        "",
        description="host:port at which the other gateways that share the state reach this one, "
        "with the cluster secret; empty: internal_address, or the bound grpc_address",
    )
    metrics_address: str = Field(
        "", description="host:port of another /metrics; empty: on http_address alone"
    )
    open_metrics: bool = Field(
        False,
        description="show /metrics on http_address to everybody; otherwise to callers with the "
        "admin or the cluster secret, and to a tenant's key what is that tenant's",
    )
    directory_file: str = Field(
        "", description="YAML with tenants, keys, plans and models; needed unless role is edge"
    )
    directory_poll_s: float = Field(
        1.0, gt=0, le=3600, description="how often directory_file is looked at for changes"
    )
    database_url: SecretStr | None = Field(
        None,
        description="the directory in a database, sqlite:////path/to/file or postgresql://"
        "user:password@host:port/database; directory_file then fills it once, while it is empty",
    )
    database_poll_s: float = Field(
        0.25, ge=0.05, le=1, description="how often the database is looked at for changes"
    )
    state_url: SecretStr | None = Field(
        None,
        description="database of sessions, jobs, files, responses and idempotency keys, in the "
        "form of database_url and shared by all gateways; unset: database_url, and without it "
        "none of these are kept",
    )
    state_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="encrypts the secrets of webhooks in the state, 32 characters or more, the "
        "same at every gateway; unset: a key derived from cluster_token",
    )
    state_key_before: SecretStr | None = Field(
        None,
        description="the state_key or cluster_token before the present one: reads what it "
        "encrypted, which is encrypted anew (docs/security.md)",
    )
    admin_secret: SecretStr | None = Field(
        default_factory=_admin_secret,
        description="secret of AdminService, 32 characters or more; unset: administration is off; "
        "better set by environment WEIR_ADMIN_SECRET",
    )
    console: ConsoleSettings = Field(
        default=ConsoleSettings(), description="pages at /console/ (docs/console.md)"
    )
    directory_address: str = Field(
        "127.0.0.1:8001", description="role edge: host:port of the gateway that serves directory.v1"
    )
    ratelimiter_address: str = Field(
        "127.0.0.1:8002",
        description="host:port of the ratelimiter; several IP:port that share a store, separated "
        "by commas, or dns:///name:port, are used in turn",
    )
    scheduler_address: str = Field(
        "127.0.0.1:8003",
        description="host:port of the scheduler; several that share a leader store, separated by "
        "commas: the active one is used",
    )
    request_timeout_s: float = Field(
        600,
        gt=0,
        le=86_400,
        description="longest life of a request; a deadline may cut it",
    )
    max_body_bytes: int = Field(4_000_000, ge=1_024, description="largest request")
    ping_s: float = Field(10, gt=0, le=300, description="silence after which a stream is pinged")
    stall_s: float = Field(
        60, gt=0, le=3600, description="a client that reads nothing for so long is given up"
    )
    cors_origins: list[str] = Field(
        ["*"], description="origins from which browsers may call; `*`: all"
    )
    limiter_timeout_s: float = Field(2, gt=0, le=60, description="of one call to the ratelimiter")
    lease_s: float = Field(
        30, ge=1, le=600, description="life of a reservation; extended every third of it"
    )
    extend_tokens: int = Field(64, ge=1, description="progress is reported after so many tokens")
    extend_lookahead: int = Field(
        128, ge=2, description="output tokens reserved ahead under reserve_policy estimate"
    )
    settle_s: float = Field(
        600, gt=0, le=3600, description="how long a settlement is repeated; then the sweep does it"
    )
    abort_wait_s: float = Field(
        5, gt=0, le=60, description="how long the record of an aborted request is waited for"
    )
    scheduler_wait_s: float = Field(
        10, gt=0, le=3600, description="how long requests wait for a scheduler that is away"
    )
    worker_idle_s: float = Field(
        60, gt=0, le=86_400, description="a stream to a worker is closed after so long without use"
    )
    response_retention_s: float = Field(
        30 * 86_400, gt=0, description="how long responses of /v1/responses are kept"
    )
    response_window_s: float = Field(
        86_400, gt=0, description="a background response that has not ended by then fails"
    )
    event_streams_at_once: int = Field(
        4_096,
        ge=1,
        le=1_000_000,
        description="event streams and watches of jobs and responses open at this gateway; of one "
        "tenant its policy's `keep.max_event_streams`",
    )
    jobs_at_once: int = Field(
        64, ge=1, le=10_000, description="jobs and lines of batches that this gateway runs at once"
    )
    tenant_jobs_at_once: int = Field(
        32, ge=1, le=10_000, description="of one tenant; fewer, so that others always find room"
    )
    job_lease_s: float = Field(
        30,
        ge=1,
        le=600,
        description="without a sign of life for so long, a gateway's jobs are run by others",
    )
    job_attempt_s: float = Field(
        3_600, gt=0, le=86_400, description="longest life of one attempt at a job, with its queue"
    )
    job_failures: int = Field(
        10, ge=1, le=1_000, description="a job fails after so many attempts that faults ended"
    )
    job_window_s: float = Field(
        86_400, gt=0, le=2_592_000, description="a job that has not ended by then expires"
    )
    job_retention_s: float = Field(
        7 * 86_400, gt=0, le=31_536_000, description="how long ended jobs and results are kept"
    )
    webhooks_over_http: bool = Field(
        False, description="allow webhooks to http URLs; for tests on one machine"
    )
    webhooks_to_private_addresses: bool = Field(
        False,
        description="allow webhooks into private networks: whoever may submit jobs can then "
        "reach what this gateway can",
    )
    end_streams_on_revocation: bool = Field(
        True,
        description="stop running requests of a key that is revoked or a tenant suspended, where "
        "the tenant's policy has no `on_revoke`",
    )
    history_step_s: float = Field(
        5,
        ge=1,
        le=60,
        description="length of a sample of HistoryService; it keeps 720 of them, then 1440 of "
        "twelve each",
    )
    explain_requests: int = Field(
        10_000,
        ge=100,
        le=1_000_000,
        description="requests whose account is kept after their end or refusal, shared out so "
        "that no tenant takes another's part; some 3 kB each",
    )
    explain_keep_s: float = Field(
        3_600, ge=60, le=86_400, description="how long they are kept; then the ledger alone knows"
    )
    idempotency_lease_s: float = Field(
        30,
        ge=1,
        le=600,
        description="an idempotency key whose gateway died is free after so long",
    )
    idempotency_keep_s: float = Field(
        86_400, ge=1, le=2_592_000, description="how long an answer is replayed to its key"
    )
    idempotency_max_bytes: int = Field(
        4_000_000, ge=1_024, le=64_000_000, description="largest answer that is kept for its key"
    )
    idempotency_on_leave: Literal["finish", "stop"] = Field(
        "finish",
        description="a request with an idempotency key whose client leaves: finish keeps the "
        "answer for the retry, stop frees the key",
    )
