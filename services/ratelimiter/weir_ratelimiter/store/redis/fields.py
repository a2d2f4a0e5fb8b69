"""Limits as the scripts read them: columns, the tenant's own fields first."""

from collections.abc import Sequence

import msgspec

from weir_ratelimiter.domain.limit import Kind, Layer, Limit, Resource
from weir_ratelimiter.domain.reservation import Entry
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.redis.keyspace import is_shared, lease_key

_PREFIXES = {Kind.BUCKET: "b:", Kind.LEASE: "l:", Kind.WINDOW: "w:", Kind.HOLD: "h:"}
_REMOVED = (0, 0, 0)
_names = msgspec.msgpack.Decoder(list[tuple[str, Kind, Resource, str]])


class Fields(msgspec.Struct, frozen=True, gc=False):
    """Entries of one reservation, or limits of one question, in the order of the scripts.

    Attributes:
        entries: the tenant's own, then the shared ones.
        own: how many are the tenant's own.
        lease_keys: keys of the lease sets among them.
    """

    entries: tuple[Entry, ...]
    own: int
    lease_keys: tuple[str, ...]

    @classmethod
    def of(cls, tenant_id: str, entries: Sequence[Entry]) -> "Fields":
        """Put entries in order; the same entries always get the same."""
        own = [entry for entry in entries if not is_shared(entry.key)]
        shared = [entry for entry in entries if is_shared(entry.key)]
        leases = [entry for entry in (*own, *shared) if entry.kind is Kind.LEASE]
        return cls(
            (*own, *shared),
            len(own),
            tuple([lease_key(tenant_id, entry.key) for entry in leases]),
        )

    @property
    def names(self) -> bytes:
        """Tells these entries from others, whatever their amounts."""
        return _names_of(self.entries)

    @property
    def names_of_asked(self) -> bytes:
        """The same of those alone of which something is asked."""
        return _names_of([entry for entry in self.entries if entry.amount > 0])

    @property
    def fields(self) -> list[str]:
        """Fields of the hashes."""
        return [field_of(entry.key, entry.kind, entry.window) for entry in self.entries]

    @property
    def kinds(self) -> list[int]:
        """Kind of each."""
        return [entry.kind for entry in self.entries]

    @property
    def resources(self) -> list[int]:
        """Resource of each."""
        return [entry.resource for entry in self.entries]

    @property
    def amounts(self) -> list[int]:
        """Units of each."""
        return [entry.amount for entry in self.entries]

    def limits(self, limits: Limits) -> list[Limit | None]:
        """Today's limit of each; None if it is gone, or of another kind now."""
        found = [limits.get(entry.key) for entry in self.entries]
        return [
            limit if limit is not None and limit.kind is entry.kind else None
            for limit, entry in zip(found, self.entries, strict=True)
        ]


def _names_of(entries: Sequence[Entry]) -> bytes:
    names = [(entry.key, entry.kind, entry.resource, entry.window) for entry in entries]
    return msgspec.msgpack.encode(names)


def entries_from(names: bytes, amounts: Sequence[int]) -> tuple[Entry, ...]:
    """Entries in the order of evaluation; those of -1 were dropped.

    Raises:
        msgspec.MsgspecError: the names are not readable.
    """
    named = _names.decode(names) if names else []
    entries = [
        Entry(key, kind, resource, amount, window)
        for (key, kind, resource, window), amount in zip(named, amounts, strict=True)
        if amount >= 0
    ]
    return tuple(sorted(entries, key=_layer))


def entries_held(fields: Fields, short: Sequence[int]) -> tuple[Entry, ...]:
    """What an admission holds, in the order of evaluation; `short` are places of others, from 1."""
    held = [
        entry
        for place, entry in enumerate(fields.entries, 1)
        if entry.amount > 0 and place not in short
    ]
    return tuple(sorted(held, key=_layer))


def _layer(entry: Entry) -> int:
    if not is_shared(entry.key):
        return 1
    return 0 if entry.key.startswith(Layer.CLUSTER.label) else 2


def field_of(key: str, kind: Kind, window: str = "") -> str:
    """Field of a limit in its hash."""
    return f"{_PREFIXES[kind]}{key}@{window}" if window else f"{_PREFIXES[kind]}{key}"


def shapes(limits: Sequence[Limit | None]) -> tuple[list[int], list[int], list[int]]:
    """Capacities, refills and periods; all 0 where there is no limit (any more)."""
    rows = [
        _REMOVED if limit is None else (limit.capacity, limit.shape.refill, limit.shape.period_ms)
        for limit in limits
    ]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
