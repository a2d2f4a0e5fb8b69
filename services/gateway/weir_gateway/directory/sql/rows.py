"""Reads and writes rows."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.directory.sql import tables
from weir_gateway.directory.sql.database import Database
from weir_gateway.directory.sql.records import Kind, Record

_TABLES = {
    Kind.TENANT: tables.tenants,
    Kind.USER: tables.users,
    Kind.KEY: tables.api_keys,
    Kind.PLAN: tables.plans,
    Kind.MODEL: tables.models,
    Kind.POOL: tables.pools,
    Kind.CLUSTER: tables.cluster,
}


async def read_version(connection: AsyncConnection) -> int:
    """The version of the directory; 0: nothing was ever written."""
    return int((await connection.execute(select(tables.head.c.version))).scalar_one())


async def read_since(connection: AsyncConnection, version: int) -> list[Record]:
    """What changed after `version`, removed objects too."""
    found: list[Record] = []
    for kind, table in _TABLES.items():
        rows = await connection.execute(select(table).where(table.c.version > version))
        found.extend(_record(kind, row) for row in rows.mappings())
    return found


async def write(
    connection: AsyncConnection, database: Database, records: Iterable[Record], version: int
) -> None:
    """Writes rows as of `version`, which becomes the directory's."""
    rows: dict[Kind, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        rows[record.kind].append(_values(record, version))
    for kind, values in rows.items():
        insert = database.insert(_TABLES[kind])
        changed = {name: insert.excluded[name] for name in values[0] if name != "id"}
        statement = insert.on_conflict_do_update(index_elements=["id"], set_=changed)
        await connection.execute(statement, values)
    await connection.execute(update(tables.head).values(version=version))
    await database.announce(connection)


async def write_events(
    connection: AsyncConnection,
    events: Sequence[tuple[str, Record]],
    *,
    actor: str,
    time_ms: int,
    version: int,
) -> None:
    """Adds to the audit trail; in the turn of its writer, so that ids rise with time."""
    audit = tables.audit
    last = (await connection.execute(select(func.coalesce(func.max(audit.c.id), 0)))).scalar_one()
    rows = [
        {
            "id": last + number,
            "time_ms": time_ms,
            "actor": actor,
            "action": action,
            "object": record.name,
            "tenant_id": record.id if record.kind is Kind.TENANT else record.tenant_id,
            "version": version,
        }
        for number, (action, record) in enumerate(events, 1)
    ]
    await connection.execute(audit.insert(), rows)


async def write_note(
    connection: AsyncConnection, *, actor: str, action: str, name: str, time_ms: int, version: int
) -> None:
    """Adds to the audit trail what changes nothing here; likewise in the turn of its writer."""
    audit = tables.audit
    last = (await connection.execute(select(func.coalesce(func.max(audit.c.id), 0)))).scalar_one()
    row = {
        "id": last + 1,
        "time_ms": time_ms,
        "actor": actor,
        "action": action,
        "object": name,
        "tenant_id": "",
        "version": version,
    }
    await connection.execute(audit.insert(), [row])


async def read_events(
    connection: AsyncConnection, tenant_id: str, before: int, limit: int
) -> list[dict[str, Any]]:
    """Audit events older than the one of id `before`, newest first; 0: from the newest."""
    audit = tables.audit
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before:
        query = query.where(audit.c.id < before)
    if tenant_id:
        query = query.where(audit.c.tenant_id == tenant_id)
    return [dict(row) for row in (await connection.execute(query)).mappings()]


async def write_uses(
    connection: AsyncConnection, database: Database, uses: Mapping[str, int]
) -> None:
    """Keeps when keys were used last, Unix milliseconds by id; another gateway may know better."""
    table = tables.key_uses
    insert = database.insert(table)
    statement = insert.on_conflict_do_update(
        index_elements=["id"],
        set_={"last_used_ms": insert.excluded.last_used_ms},
        where=table.c.last_used_ms < insert.excluded.last_used_ms,
    )
    rows = [{"id": key_id, "last_used_ms": at} for key_id, at in sorted(uses.items())]
    await connection.execute(statement, rows)


async def read_uses(connection: AsyncConnection, key_ids: Sequence[str]) -> dict[str, int]:
    """When keys were used last; those of which nothing is known are left out."""
    table = tables.key_uses
    found = await connection.execute(select(table).where(table.c.id.in_(key_ids)))
    return {row["id"]: row["last_used_ms"] for row in found.mappings()}


def _record(kind: Kind, row: Any) -> Record:
    return Record(
        kind,
        row["id"],
        row["tenant_id"],
        json.loads(row["body"]),
        version=row["version"],
        deleted=row["deleted"],
        overlap_end_ms=row.get("overlap_end_ms"),
    )


def _values(record: Record, version: int) -> dict[str, Any]:
    values = {
        "id": record.id,
        "tenant_id": record.tenant_id,
        "version": version,
        "deleted": record.deleted,
        "body": json.dumps(record.body, ensure_ascii=False, sort_keys=True),
    }
    if record.kind is Kind.KEY:
        values["overlap_end_ms"] = record.overlap_end_ms
    return values
