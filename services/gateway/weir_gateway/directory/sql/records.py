"""Rows of the directory, and a draft of what a change makes of them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.directory.sql.entry_form import Form


class Kind(StrEnum):
    """Kinds of objects, as people and the audit trail call them."""

    TENANT = "tenant"
    USER = "user"
    KEY = "key"
    PLAN = "plan"
    MODEL = "model"
    POOL = "pool"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Record:
    """One row.

    Attributes:
        id: `tenant/user` of users.
        tenant_id: empty for what belongs to no tenant.
        version: of the directory, when it changed last.
        body: in the form of the directory file; shared, not to be changed.
        deleted: it is gone; what stays says so.
        overlap_end_ms: of a key with two secrets: until when the older one works.
    """

    kind: Kind
    id: str
    tenant_id: str
    body: Form
    version: int = 0
    deleted: bool = False
    overlap_end_ms: int | None = None

    @property
    def name(self) -> str:
        """For people and the audit trail, such as `user/acme/alice`."""
        return f"{self.kind}/{self.id}"


Name = tuple[Kind, str]


class Records:
    """Every row by kind and id, those of removed objects too. Never changes."""

    def __init__(self) -> None:
        self._by_kind: dict[Kind, dict[str, Record]] = {kind: {} for kind in Kind}
        # What belongs to a tenant, itself included.
        self._of_tenant: dict[str, frozenset[Name]] = {}
        # Keys with two secrets.
        self._overlapping: dict[str, Record] = {}

    def get(self, kind: Kind, name: str) -> Record | None:
        """The living one of that id."""
        record = self.any(kind, name)
        return None if record is None or record.deleted else record

    def any(self, kind: Kind, name: str) -> Record | None:
        """As `get`, a removed one too."""
        return self._by_kind[kind].get(name)

    def of(self, kind: Kind) -> Iterator[Record]:
        """The living ones of a kind, by id."""
        living = (one for one in self._by_kind[kind].values() if not one.deleted)
        yield from sorted(living, key=lambda one: one.id)

    def of_tenant(self, tenant_id: str) -> list[Record]:
        """A living tenant and its living users, keys and pools, by kind and id."""
        names = sorted(self._of_tenant.get(tenant_id, ()))
        found = (self.get(kind, name) for kind, name in names)
        return [one for one in found if one is not None]

    def overlapping(self) -> Collection[Record]:
        """Keys whose older secret still works."""
        return self._overlapping.values()

    def with_changes(self, changes: "Iterable[Record]") -> "Records":
        """A copy with `changes` in it."""
        new = Records()
        new._by_kind = dict(self._by_kind)
        new._of_tenant = dict(self._of_tenant)
        new._overlapping = dict(self._overlapping)
        copied: set[Kind] = set()
        owned: dict[str, set[Name]] = {}
        for one in changes:
            if one.kind not in copied:
                copied.add(one.kind)
                new._by_kind[one.kind] = dict(new._by_kind[one.kind])
            new._by_kind[one.kind][one.id] = one
            owner = one.id if one.kind is Kind.TENANT else one.tenant_id
            if owner:
                names = owned.setdefault(owner, set(new._of_tenant.get(owner, ())))
                names.add((one.kind, one.id))
            if one.overlap_end_ms is not None and not one.deleted:
                new._overlapping[one.id] = one
            elif one.kind is Kind.KEY:
                new._overlapping.pop(one.id, None)
        new._of_tenant.update((owner, frozenset(names)) for owner, names in owned.items())
        return new


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was put, to be found again in what is stored."""

    kind: Kind
    id: str
    message: Any


@dataclass(slots=True)
class Draft:
    """What one change does: it is written as a whole or not at all.

    Attributes:
        before: what is stored.
        changes: rows to write, by name.
        events: action and object of each audit event.
        sent: see `Sent`.
    """

    before: Records
    changes: dict[tuple[Kind, str], Record] = field(default_factory=dict)
    events: list[tuple[str, Record]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def get(self, kind: Kind, name: str, knob: str) -> Record:
        """The living object of that id.

        Raises:
            WeirError: NOT_FOUND; `knob` is the field that names it.
        """
        record = self.before.get(kind, name)
        if record is None:
            raise WeirError(Reason.NOT_FOUND, f"{knob}: there is no {kind} {name!r}", field=knob)
        return record

    def put(self, record: Record, action: str) -> None:
        """Creates or replaces."""
        self.changes[record.kind, record.id] = record
        self.events.append((action, record))

    def remove(self, record: Record) -> None:
        """Removes."""
        gone = Record(record.kind, record.id, record.tenant_id, {}, deleted=True)
        self.changes[record.kind, record.id] = gone
        self.events.append(("delete", gone))

    def guard(self, kind: Kind, name: str, expected: int) -> None:
        """Refuses a change that was made from what is no longer there.

        Raises:
            WeirError: VERSION_CONFLICT, or INVALID_FIELD for a negative version.
        """
        if expected < 0:
            raise InvalidField("expected_version", expected, "0 or a version of the directory")
        present = self.before.any(kind, name)
        if expected and present is not None and present.version > expected:
            raise WeirError(
                Reason.VERSION_CONFLICT,
                f"expected_version is {expected}, but the {kind} {name!r} changed in version "
                f"{present.version}; read it again and repeat the change",
                field="expected_version",
                metadata={"present_version": str(present.version)},
            )
