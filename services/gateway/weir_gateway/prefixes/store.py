"""Prefixes in the state database."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    String,
    Table,
    and_,
    delete,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.prefixes.prefix import NEWEST, Prefix, PrefixContent, Warmth
from weir_gateway.prefixes.tables import names, prefixes, warmings
from weir_gateway.state.state import State

KEPT_VERSIONS = 3
MOST_NAMES = 200
MOST_EVER = 10_000
"""Names that a tenant may have used: their numbers are kept, so that none comes back."""
MOST_STORED = 20_000_000
"""Characters of all versions of a tenant's prefixes, as they are stored."""
_READ_S = 3.0
_CLAIM_MS = 600_000
_HEAD = (
    prefixes.c.tenant_id,
    prefixes.c.name,
    prefixes.c.version,
    prefixes.c.models,
    prefixes.c.api_key_id,
    prefixes.c.created_ms,
)


class PrefixStore:
    """Every look-up is by tenant and name together.

    Methods raise WeirError(STATE_OFF or STATE_UNAVAILABLE) without a database, or while it is
    down.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    async def put(
        self,
        tenant_id: str,
        name: str,
        content: PrefixContent,
        *,
        models: Sequence[str],
        api_key_id: str,
        now_ms: int,
    ) -> Prefix:
        """Keeps the next version, and gives up those before the `KEPT_VERSIONS` newest.

        Raises:
            InvalidField: the tenant has `MOST_NAMES` prefixes of other names, or has used
                `MOST_EVER`.
            WeirError: STORAGE_EXCEEDED: they would have more than `MOST_STORED` characters.
        """
        async with self._state.writing() as connection:
            version = await self._next_version(connection, tenant_id, name)
            await _check_count(connection, tenant_id, name)
            if version == 1:
                await _check_ever(connection, tenant_id, name)
            prefix = Prefix(
                tenant_id=tenant_id,
                name=name,
                version=version,
                content=content,
                models=tuple(models),
                api_key_id=api_key_id,
                created_ms=now_ms,
            )
            await connection.execute(
                prefixes.insert().values(
                    tenant_id=tenant_id,
                    name=name,
                    version=version,
                    content=content.to_json(),
                    models=json.dumps(list(models)),
                    api_key_id=api_key_id,
                    created_ms=now_ms,
                )
            )
            for table in (prefixes, warmings):
                old = table.c.version <= version - KEPT_VERSIONS
                await connection.execute(delete(table).where(_named(table, tenant_id, name), old))
            await _check_stored(connection, tenant_id)
        return prefix

    async def find(self, tenant_id: str, name: str, version: int) -> Prefix | None:
        """One version, `NEWEST` for that; None where the tenant has no such."""
        query = select(prefixes).where(_named(prefixes, tenant_id, name))
        if version != NEWEST:
            query = query.where(prefixes.c.version == version)
        query = query.order_by(prefixes.c.version.desc()).limit(1)
        async with self._state.reading(_READ_S) as connection:
            row = (await connection.execute(query)).first()
        return None if row is None else _prefix(row)

    async def page(self, tenant_id: str, most: int, after: tuple[str, int] | None) -> list[Prefix]:
        """Versions of a tenant by name and version, without their content.

        Args:
            tenant_id: whose.
            most: of them.
            after: name and version of the last one of the page before.
        """
        query = select(*_HEAD).where(prefixes.c.tenant_id == tenant_id)
        if after is not None:
            last = tuple_(literal(after[0], String), literal(after[1], BigInteger))
            query = query.where(tuple_(prefixes.c.name, prefixes.c.version) > last)
        query = query.order_by(prefixes.c.name, prefixes.c.version).limit(most)
        async with self._state.reading() as connection:
            return [_prefix(row) for row in await connection.execute(query)]

    async def delete(self, tenant_id: str, name: str, version: int) -> bool:
        """Removes one version, or all for `NEWEST`; False where there is none."""
        async with self._state.writing() as connection:
            gone = False
            for table in (warmings, prefixes):
                which = _named(table, tenant_id, name)
                if version != NEWEST:
                    which = and_(which, table.c.version == version)
                gone = bool((await connection.execute(delete(table).where(which))).rowcount)
        return gone

    async def warmed(self, prefix: Prefix, warmths: Iterable[Warmth]) -> None:
        """Notes where a prefix was computed; it may have been deleted meanwhile."""
        async with self._state.writing() as connection:
            for warmth in warmths:
                await self._note(connection, prefix, warmth)

    async def claim(self, prefix: Prefix, model: str, worker_id: str, now_ms: int) -> bool:
        """Whether this caller, of all gateways, is the one to compute it on a worker."""
        row = _key(prefix) | {"model": model, "worker_id": worker_id}
        statement = (
            self._state.insert(warmings)
            .values(**row, time_ms=now_ms, prompt_tokens=0)
            .on_conflict_do_update(
                index_elements=list(warmings.primary_key),
                set_={"time_ms": now_ms},
                # Whoever claimed it first has died over it.
                where=and_(warmings.c.prompt_tokens == 0, warmings.c.time_ms < now_ms - _CLAIM_MS),
            )
        )
        async with self._state.writing() as connection:
            return bool((await connection.execute(statement)).rowcount)

    async def warmths(self, prefix: Prefix) -> list[Warmth]:
        """Where it was computed."""
        query = (
            select(warmings)
            .where(
                _named(warmings, prefix.tenant_id, prefix.name),
                warmings.c.version == prefix.version,
                warmings.c.prompt_tokens > 0,
            )
            .order_by(warmings.c.model, warmings.c.worker_id)
        )
        async with self._state.reading() as connection:
            return [_warmth(row) for row in await connection.execute(query)]

    async def newest_of_models(self) -> list[Prefix]:
        """The newest version of every prefix that was computed somewhere, of every tenant."""
        newest = (
            select(prefixes.c.tenant_id, prefixes.c.name, func.max(prefixes.c.version))
            .group_by(prefixes.c.tenant_id, prefixes.c.name)
            .subquery()
        )
        key = tuple_(prefixes.c.tenant_id, prefixes.c.name, prefixes.c.version)
        computed = select(warmings.c.tenant_id, warmings.c.name, warmings.c.version)
        query = select(*_HEAD).where(key.in_(select(newest)), key.in_(computed))
        async with self._state.reading() as connection:
            return [_prefix(row) for row in await connection.execute(query)]

    async def _next_version(self, connection: AsyncConnection, tenant_id: str, name: str) -> int:
        statement = (
            self._state.insert(names)
            .values(tenant_id=tenant_id, name=name, last_version=1)
            .on_conflict_do_update(
                index_elements=[names.c.tenant_id, names.c.name],
                set_={"last_version": names.c.last_version + 1},
            )
            .returning(names.c.last_version)
        )
        version = await connection.scalar(statement)
        assert isinstance(version, int)
        return version

    async def _note(self, connection: AsyncConnection, prefix: Prefix, warmth: Warmth) -> None:
        there = select(prefixes.c.version).where(
            _named(prefixes, prefix.tenant_id, prefix.name),
            prefixes.c.version == prefix.version,
        )
        if (await connection.execute(there)).first() is None:
            return
        row = _key(prefix) | {"model": warmth.model, "worker_id": warmth.worker_id}
        told = {"time_ms": warmth.time_ms, "prompt_tokens": warmth.prompt_tokens}
        statement = self._state.insert(warmings).values(**row, **told)
        await connection.execute(
            statement.on_conflict_do_update(index_elements=list(warmings.primary_key), set_=told)
        )


async def _check_count(connection: AsyncConnection, tenant_id: str, name: str) -> None:
    others = select(func.count(prefixes.c.name.distinct())).where(
        prefixes.c.tenant_id == tenant_id, prefixes.c.name != name
    )
    if (await connection.scalar(others) or 0) >= MOST_NAMES:
        raise InvalidField(
            "name", name, f"one of the {MOST_NAMES} that there are; delete one of them first"
        )


async def _check_ever(connection: AsyncConnection, tenant_id: str, name: str) -> None:
    used = select(func.count()).select_from(names).where(names.c.tenant_id == tenant_id)
    if (await connection.scalar(used) or 0) > MOST_EVER:
        raise InvalidField(
            "name", name, f"one of the {MOST_EVER} that were used already; use one of them again"
        )


async def _check_stored(connection: AsyncConnection, tenant_id: str) -> None:
    query = select(func.sum(func.length(prefixes.c.content))).where(
        prefixes.c.tenant_id == tenant_id
    )
    stored = await connection.scalar(query) or 0
    if stored > MOST_STORED:
        raise WeirError(
            Reason.STORAGE_EXCEEDED,
            f"with this one the account's prefixes would have {stored} characters, three versions "
            f"of each name, of at most {MOST_STORED}; delete some",
        )


def _named(table: Table, tenant_id: str, name: str) -> ColumnElement[bool]:
    return and_(table.c.tenant_id == tenant_id, table.c.name == name)


def _key(prefix: Prefix) -> dict[str, object]:
    return {"tenant_id": prefix.tenant_id, "name": prefix.name, "version": prefix.version}


def _prefix(row: Row[*tuple[Any, ...]]) -> Prefix:
    values = dict(row._mapping)
    kept = values.get("content")
    values["content"] = PrefixContent.from_json(kept) if isinstance(kept, str) else PrefixContent()
    values["models"] = tuple(json.loads(str(values["models"])))
    return Prefix(**values)


def _warmth(row: Row[*tuple[Any, ...]]) -> Warmth:
    found = row._mapping
    return Warmth(**{name: found[name] for name in Warmth.__dataclass_fields__})
