"""Rows of the directory, and a draft of what a change makes of them."""

from collections.abc import Iterator
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


class Records:
    """Every row by kind and id, those of removed objects too."""

    def __init__(self, records: dict[tuple[Kind, str], Record] | None = None) -> None:
        self._records = records or {}

    def get(self, kind: Kind, name: str) -> Record | None:
        """The living one of that id."""
        record = self._records.get((kind, name))
        return None if record is None or record.deleted else record

    def any(self, kind: Kind, name: str) -> Record | None:
        """As `get`, a removed one too."""
        return self._records.get((kind, name))

    def of(self, kind: Kind) -> Iterator[Record]:
        """The living ones of a kind, by id."""
        found = (record for record in self._records.values() if record.kind is kind)
        yield from sorted((one for one in found if not one.deleted), key=lambda one: one.id)

    def with_changes(self, changes: "list[Record]") -> "Records":
        """A copy with `changes` in it."""
        return Records(self._records | {(one.kind, one.id): one for one in changes})


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
