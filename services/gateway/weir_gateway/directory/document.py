"""The directory file: cluster, plans, models, pools, and tenants with their users and keys."""

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints, field_validator

from weir_gateway.directory.degradation_entry import DegradationEntry
from weir_gateway.directory.entries import (
    Amount,
    Entry,
    Identifier,
    LimitEntry,
    ModelName,
    ParameterEntry,
    PositiveAmount,
    PriceEntry,
    Text,
)
from weir_gateway.directory.offline_entries import BatchEntry, FilesEntry, KeepEntry
from weir_gateway.directory.placement_entries import PlacementEntry, PreemptionEntry
from weir_gateway.directory.pool_entries import (
    ScalingEntry,
    SharesEntry,
    SheddingEntry,
    SloEntry,
)

_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.ASCII)


def _parse_hash(value: object) -> bytes:
    match = _HASH.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        # Not quoted: somebody may have put the key itself here.
        raise ValueError(
            "not a SHA-256 of a key; it must be `sha256:` and 64 hex digits, "
            "as printed by `weir keys create`"
        )
    return bytes.fromhex(match[1])


KeyHash = Annotated[bytes, BeforeValidator(_parse_hash)]
PublicKeyId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$", strict=True)]


_SHORTEST_TTL_S, _LONGEST_TTL_S = 600, 1_800


class KvEntry(Entry):
    """A tenant's part of each worker's KV cache; see `weir.worker.v1.KvPolicy`.

    Attributes:
        max_tokens: held at once on one worker; 0: no bound, also where the plan has one.
        session_ttl_s: how long an idle session keeps its KV; 0: not at all.
        normalise_prefix: whether declared prefixes lose CRs and blanks at the ends of lines.
    """

    max_tokens: Amount | None = None
    weight: Annotated[int, Field(ge=1, le=1000)] | None = None
    share_private: bool | None = None
    session_ttl_s: int | None = None
    normalise_prefix: bool | None = None

    @field_validator("session_ttl_s")
    @classmethod
    def _bounded(cls, value: int | None) -> int | None:
        if value and not _SHORTEST_TTL_S <= value <= _LONGEST_TTL_S:
            raise ValueError(
                f"{value} is out of bounds; it must be 0 (sessions keep nothing), or from "
                f"{_SHORTEST_TTL_S} to {_LONGEST_TTL_S} seconds"
            )
        return value


class PolicyEntry(Entry):
    """What a tenant may ask for beyond limits; see `weir.directory.v1.Policy`."""

    weight: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_priority: Annotated[int, Field(ge=0, le=100)] | None = None
    max_running_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_queued_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    allowed_models: tuple[ModelName, ...] = ()
    require_max_new_tokens: bool | None = None
    reserve_policy: Literal["full", "estimate"] | None = None
    extend_policy: Literal["stop", "debt"] | None = None
    # None: as the gateway is set.
    on_revoke: Literal["end_streams", "let_finish"] | None = None
    kv: KvEntry = KvEntry()
    slo: SloEntry = SloEntry()
    files: FilesEntry = FilesEntry()
    batch: BatchEntry = BatchEntry()
    keep: KeepEntry = KeepEntry()
    degradations: tuple[
        Literal["smaller_model", "lower_max_new_tokens", "cheaper_sampling"], ...
    ] = ()
    degradation: DegradationEntry = DegradationEntry()


class PlanEntry(Entry):
    """A package of limits and a policy."""

    id: Identifier
    limits: tuple[LimitEntry, ...] = ()
    policy: PolicyEntry = PolicyEntry()


class KeyEntry(Entry):
    """An API key: its public id and the SHA-256 of the whole key, never the key itself."""

    id: PublicKeyId
    user: Identifier
    name: Text = ""
    # Two while a rotation overlaps.
    hashes: Annotated[tuple[KeyHash, ...], Field(max_length=2)] = ()
    hash: KeyHash | None = None
    expires: AwareDatetime | None = None
    revoked: bool = False
    allowed_models: tuple[ModelName, ...] = ()
    limits: tuple[LimitEntry, ...] = ()

    @property
    def all_hashes(self) -> list[bytes]:
        """The hashes of `hash` and `hashes`."""
        return ([self.hash] if self.hash else []) + list(self.hashes)


class UserEntry(Entry):
    """A person or program of a tenant."""

    id: Identifier
    name: Text = ""
    limits: tuple[LimitEntry, ...] = ()


class TenantEntry(Entry):
    """A customer with its users and keys."""

    id: Identifier
    name: Text = ""
    plan: Identifier
    suspended: bool = False
    limits: tuple[LimitEntry, ...] = ()
    policy: PolicyEntry = PolicyEntry()
    # By model name; `*` is every model.
    parameters: dict[str, ParameterEntry] = Field(default_factory=dict)
    users: Annotated[tuple[UserEntry, ...], Field(min_length=1)]
    keys: tuple[KeyEntry, ...] = ()


class VersionEntry(Entry):
    """One version of a model and the folder that holds it on every host."""

    version: Identifier
    weight: Annotated[int, Field(ge=0, le=1000)] = 100
    folder: Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class ModelEntry(Entry):
    """A model that the deployment serves."""

    name: ModelName
    aliases: tuple[ModelName, ...] = ()
    versions: Annotated[tuple[VersionEntry, ...], Field(min_length=1)]
    max_context: PositiveAmount
    pool: Identifier = "default"
    # Who keeps the version that was drawn by weight.
    sticky: Literal["tenant", "session", "none"] = "tenant"
    # What a drawn version without live worker does.
    version_fallback: Literal["other", "none"] = "other"
    further_pools: tuple[Identifier, ...] = ()
    # Serves its requests where a policy allows `smaller_model`.
    fallback_model: ModelName | None = None
    limits: tuple[LimitEntry, ...] = ()
    parameters: ParameterEntry = ParameterEntry()
    price: PriceEntry | None = None
    created: datetime | None = None


class PolicyParametersEntry(Entry):
    """Parameters of a pool's scheduler policy; absent ones have the policy's default."""

    promote_after_ms: Annotated[int, Field(ge=0, le=86_400_000)] | None = None
    promote_every: Annotated[int, Field(ge=1, le=1_000)] | None = None
    max_overtaken: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    aging_us_per_token: Annotated[int, Field(ge=0, le=10_000_000)] | None = None


class PoolEntry(Entry):
    """Workers that share a queue."""

    name: Identifier
    isolation: Literal["shared", "weighted", "dedicated"] = "weighted"
    scheduler_policy: Literal["fifo", "priority", "shortest_remaining"] = "fifo"
    policy_parameters: PolicyParametersEntry = PolicyParametersEntry()
    fair_queue: Literal["tokens", "locality"] = "tokens"
    quantum_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    tenant: Identifier | None = None
    request_class: Annotated[
        Literal["interactive", "batch"] | None, Field(default=None, alias="class")
    ]
    length: Literal["short", "long"] | None = None
    profiles: tuple[Text, ...] = ()
    shares: SharesEntry = SharesEntry()
    when_gone: Literal["refuse", "wait", "shared"] | None = None
    shedding: SheddingEntry = SheddingEntry()
    placement: PlacementEntry = PlacementEntry()
    # Present, if empty: on.
    preemption: PreemptionEntry | None = None
    scaling: ScalingEntry = ScalingEntry()


class ClusterEntry(Entry):
    """What holds for everybody."""

    limits: tuple[LimitEntry, ...] = ()


class Document(Entry):
    """The whole file."""

    cluster: ClusterEntry = ClusterEntry()
    pools: tuple[PoolEntry, ...] = ()
    plans: tuple[PlanEntry, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    tenants: tuple[TenantEntry, ...] = ()
