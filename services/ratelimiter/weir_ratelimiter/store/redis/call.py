"""One call of one function."""

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.store.redis import keyspace
from weir_ratelimiter.store.redis.fields import Fields, shapes

_encoder = msgspec.msgpack.Encoder()
_MOST_IN_SHORT_HEAD = 15

_DIGEST_BYTES = 16
"""See `plans.lua`."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One call of one function: in brief, and what a server may ask for beyond that.

    Attributes:
        function: its name.
        keys: what it may touch.
        asked: its first argument.
        plan: its second, of which the digest is sent; see `plan`. Empty: it has none.
        others: its other arguments.
        record: what a reservation is rebuilt from, its last one if it is sent in full.
    """

    function: str
    keys: tuple[str, ...]
    asked: bytes
    plan: bytes = b""
    others: tuple[bytes, ...] = ()
    record: bytes = b""

    @property
    def in_brief(self) -> tuple[bytes, ...]:
        """The arguments for a server that knows plan and reservation."""
        if not self.plan:
            return (self.asked, *self.others)
        return (self.asked, _digest(self.plan), *self.others)

    @property
    def in_full(self) -> tuple[bytes, ...]:
        """The arguments for one that does not; only of a call with a plan."""
        told = (self.asked, _digest(self.plan) + self.plan, *self.others)
        return (*told, self.record) if self.record else told


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


def row(*values: object) -> bytes:
    """Values one after the other, without the frame that would cost the server a table."""
    head = 1 if len(values) <= _MOST_IN_SHORT_HEAD else 3
    packable = [
        msgspec.Raw(string(value)) if isinstance(value, bytes) else value for value in values
    ]
    return _encoder.encode(packable)[head:]


def string(value: bytes) -> bytes:
    """Bytes as a packed string: the server's Lua reads no `bin`."""
    return b"\xdb" + len(value).to_bytes(4) + value


def doubles(numbers: Sequence[int]) -> bytes:
    """Numbers up to 2^53 as a row of doubles."""
    return _doubles(len(numbers)).pack(*numbers)


@lru_cache(maxsize=256)
def _doubles(number: int) -> struct.Struct:
    return struct.Struct(f"<{number}d")


def _digest(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_DIGEST_BYTES).digest()


def plan(fields: Fields, limits: Sequence[Limit | None]) -> bytes:
    """What is the same in all calls about these limits; see `plans.lua`."""
    return row(
        fields.own,
        fields.fields,
        fields.kinds,
        fields.resources,
        *shapes(limits),
        fields.names,
        [int(limit is not None and limit.overdraws) for limit in limits],
        [int(limit is not None and not limit.shadow) for limit in limits],
        [0 if limit is None else limit.max_debt for limit in limits],
    )
