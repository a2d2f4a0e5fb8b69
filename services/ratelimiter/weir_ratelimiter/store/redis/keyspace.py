"""Names of keys: a slot for every tenant, and nothing of a tenant's text that could move it."""

import hashlib
from functools import lru_cache
from urllib.parse import quote

SHARDS = 1025
"""Of which the last holds what is of no tenant."""

NOBODY = "\x00"
"""Stands for the tenant of reservations against the shared limits alone; no tenant's id."""

_TENANT_SHARDS = 1024
_SHARED_SHARD = 1024
SHARED_HASH = "{g}:limits"
_SHARED_LAYERS = ("cluster/", "cluster:", "model:", "model/")


@lru_cache(maxsize=65_536)
def shard_of(tenant_id: str) -> int:
    """Which of the 1,024 shards a tenant lives in: the same in every process and release."""
    if tenant_id == NOBODY:
        return _SHARED_SHARD
    digest = hashlib.blake2b(tenant_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % _TENANT_SHARDS


@lru_cache(maxsize=65_536)
def tenant_hash(tenant_id: str) -> str:
    """Key of the hash with all levels of a tenant."""
    return f"{_tag(shard_of(tenant_id))}:tenant:{quote(tenant_id, safe='')}"


def hash_of(tenant_id: str, limit_key: str) -> str:
    """Key of the hash that a limit of a tenant, or of all tenants, is in."""
    return SHARED_HASH if is_shared(limit_key) else tenant_hash(tenant_id)


def reservation_key(tenant_id: str, reservation_id: str) -> str:
    """Key of a reservation of a tenant."""
    return reservation_key_in(shard_of(tenant_id), reservation_id)


def reservation_key_in(shard: int, reservation_id: str) -> str:
    """Key of a reservation in a shard."""
    return f"{_tag(shard)}:reservation:{quote(reservation_id, safe='')}"


def grant_key(place: str, tenant_id: str, adjustment_id: str) -> str:
    """Key under which an adjustment of a tenant is remembered, in that or another's place."""
    names = f"{quote(tenant_id, safe='')}/{quote(adjustment_id, safe='')}"
    return f"{_tag(shard_of(place))}:grant:{names}"


def expiry_key(shard: int) -> str:
    """Key of the sorted set of a shard's open reservations, by the end of their leases."""
    return f"{_tag(shard)}:expiry"


def outbox_key(shard: int) -> str:
    """Key of the stream of a shard's events that no ledger has acknowledged."""
    return f"{_tag(shard)}:outbox"


def lease_key(tenant_id: str, limit_key: str) -> str:
    """Key of the sorted set of a limit's leases."""
    tag = "{g}" if is_shared(limit_key) else _tag(shard_of(tenant_id))
    return f"{tag}:leases:{quote(limit_key, safe=':/%')}"


def is_shared(limit_key: str) -> bool:
    """Whether a limit is of the cluster or of a model, and so of all tenants."""
    return limit_key.startswith(_SHARED_LAYERS)


def _tag(shard: int) -> str:
    return "{g}" if shard == _SHARED_SHARD else f"{{s:{shard:04d}}}"
