"""One run of one script."""

import msgspec

from weir_ratelimiter.store.redis import keyspace
from weir_ratelimiter.store.redis.fields import Fields
from weir_ratelimiter.store.redis.scripts import Script


class Call(msgspec.Struct, frozen=True, gc=False):
    """One run of one script."""

    script: Script
    keys: tuple[str, ...]
    arguments: tuple[bytes, ...]


def keys_of(tenant_id: str, reservation_id: str, fields: Fields) -> tuple[str, ...]:
    """Keys of a call about some fields, as `layout.lua` has them."""
    shard, tenant = keyspace.shard_of(tenant_id), keyspace.tenant_hash(tenant_id)
    return (
        tenant,
        keyspace.reservation_key(tenant_id, reservation_id),
        keyspace.expiry_key(shard),
        keyspace.outbox_key(shard),
        # A cluster takes no key of another slot, needed or not.
        keyspace.SHARED_HASH if fields.own < len(fields.entries) else tenant,
        *fields.lease_keys,
    )
