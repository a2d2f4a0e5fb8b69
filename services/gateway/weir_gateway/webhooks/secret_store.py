"""The secrets that sign a tenant's webhooks."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_gateway.state.state import State
from weir_gateway.webhooks.signature import new_secret
from weir_gateway.webhooks.tables import secrets


@dataclass(frozen=True, slots=True)
class Secrets:
    """Of one tenant; times are Unix milliseconds.

    Attributes:
        previous: signs, too, until `previous_until_ms`; empty for none.
    """

    secret: str
    previous: str
    previous_until_ms: int
    changed_ms: int


class SecretStore:
    """Makes, tells and rotates them.

    Args:
        state: the database.
        clock: wall time.
    """

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def get(self, tenant_id: str) -> Secrets:
        """The secrets of a tenant, made when they are first asked for. Raises WeirError."""
        async with self._state.writing() as connection:
            await self.ensure(connection, tenant_id)
            return await self._read(connection, tenant_id)

    async def rotate(self, tenant_id: str, overlap_ms: int) -> Secrets:
        """A new secret; the present one signs, too, for `overlap_ms`. Raises WeirError."""
        now_ms = self._clock.now_us() // 1_000
        async with self._state.writing() as connection:
            await self.ensure(connection, tenant_id)
            old = await self._read(connection, tenant_id)
            values = {
                "secret": new_secret(),
                "previous": old.secret if overlap_ms else "",
                "previous_until_ms": now_ms + overlap_ms if overlap_ms else 0,
                "changed_ms": now_ms,
            }
            await connection.execute(
                secrets.update().where(secrets.c.tenant_id == tenant_id).values(**values)
            )
            return await self._read(connection, tenant_id)

    async def ensure(self, connection: AsyncConnection, tenant_id: str) -> None:
        """Makes a first secret in the transaction of `connection`, if there is none."""
        row = {
            "tenant_id": tenant_id,
            "secret": new_secret(),
            "previous": "",
            "previous_until_ms": 0,
            "changed_ms": self._clock.now_us() // 1_000,
        }
        await connection.execute(self._state.insert(secrets).values(row).on_conflict_do_nothing())

    async def in_force(self, connection: AsyncConnection, tenant_id: str) -> tuple[str, ...]:
        """What signs now, the newest first."""
        found = await self._read(connection, tenant_id)
        if found.previous and found.previous_until_ms > self._clock.now_us() // 1_000:
            return (found.secret, found.previous)
        return (found.secret,)

    async def _read(self, connection: AsyncConnection, tenant_id: str) -> Secrets:
        columns = (
            secrets.c.secret,
            secrets.c.previous,
            secrets.c.previous_until_ms,
            secrets.c.changed_ms,
        )
        statement = select(*columns).where(secrets.c.tenant_id == tenant_id)
        return Secrets(*(await connection.execute(statement)).one())
