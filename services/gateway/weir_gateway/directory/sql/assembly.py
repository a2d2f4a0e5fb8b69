"""Makes a checked document of the rows, the same that a directory file would be read as."""

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import ValidationError

from weir_gateway.directory.checks import check_document
from weir_gateway.directory.document import (
    ClusterEntry,
    Document,
    KeyEntry,
    ModelEntry,
    PlanEntry,
    PoolEntry,
    TenantEntry,
    UserEntry,
)
from weir_gateway.directory.entries import Entry
from weir_gateway.directory.inheritance import with_time_zones
from weir_gateway.directory.sql.records import Kind, Record, Records

_E = TypeVar("_E", bound=Entry)


class EntryInvalid(ValueError):
    """A row breaks a rule of the directory file by itself.

    Attributes:
        record: the row.
        field: path of the field within it.
        value: what it holds.
        problem: what is wrong.
    """

    def __init__(self, record: Record, field: str, value: object, problem: str) -> None:
        super().__init__(f"{record.kind} {record.id!r}: {field}: {problem}")
        self.record = record
        self.field = field
        self.value = value
        self.problem = problem


class StoredTenantEntry(TenantEntry):
    """A tenant whose users come after it."""

    users: tuple[UserEntry, ...] = ()


class Assembler:
    """Keeps the entries of rows that have not changed."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Kind, str], tuple[Record, Any]] = {}

    def document(self, records: Records) -> Document:
        """The document of the living rows.

        Raises:
            EntryInvalid: one breaks a rule by itself.
            RuleBroken: they break one together.
        """
        return self._checked(records, [tenant.id for tenant in records.of(Kind.TENANT)])

    def part(self, records: Records, tenants: Iterable[str]) -> Document:
        """As `document`, of tenants alone those that are named; a name may be nobody's."""
        return self._checked(records, tenants)

    def _checked(self, records: Records, tenants: Iterable[str]) -> Document:
        cluster = [self._entry(ClusterEntry, one) for one in records.of(Kind.CLUSTER)]
        document = Document(
            cluster=cluster[0] if cluster else ClusterEntry(),
            pools=self._all(PoolEntry, records, Kind.POOL),
            plans=self._all(PlanEntry, records, Kind.PLAN),
            models=self._all(ModelEntry, records, Kind.MODEL),
            tenants=tuple(filter(None, (self._tenant(records, name) for name in tenants))),
        )
        check_document(document)
        return with_time_zones(document)

    def _tenant(self, records: Records, tenant_id: str) -> TenantEntry | None:
        tenant = records.get(Kind.TENANT, tenant_id)
        if tenant is None:
            return None
        owned = records.of_tenant(tenant_id)
        users = tuple(self._entry(UserEntry, one) for one in owned if one.kind is Kind.USER)
        keys = tuple(self._entry(KeyEntry, one) for one in owned if one.kind is Kind.KEY)
        entry = self._entry(StoredTenantEntry, tenant)
        return entry.model_copy(update={"users": users, "keys": keys})

    def _all(self, entry: type[_E], records: Records, kind: Kind) -> tuple[_E, ...]:
        return tuple(self._entry(entry, record) for record in records.of(kind))

    def _entry(self, entry: type[_E], record: Record) -> _E:
        known = self._entries.get((record.kind, record.id))
        if known is not None and known[0].body is record.body:
            made: _E = known[1]
            return made
        try:
            made = entry.model_validate(record.body)
        except ValidationError as error:
            raise _invalid(record, error) from None
        self._entries[record.kind, record.id] = record, made
        return made


def _invalid(record: Record, error: ValidationError) -> EntryInvalid:
    first = error.errors(include_url=False)[0]
    field = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if at else part
        for at, part in enumerate(first["loc"])
    )
    hidden = "hash" in field
    message = first["msg"].removeprefix("Value error, ")
    return EntryInvalid(record, field or "it", None if hidden else first["input"], message)
