"""The secrets that sign a tenant's webhooks."""

from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.state.state import State
from weir_gateway.webhooks.secret_box import CannotOpen, SecretBox
from weir_gateway.webhooks.signature import new_secret
from weir_gateway.webhooks.tables import secrets

_log = get_logger(__name__)


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
    """Makes, tells and rotates them. They lie encrypted in the database.

    Args:
        state: the database.
        clock: wall time.
        box: encrypts them.
    """

    def __init__(self, state: State, clock: Clock, box: SecretBox) -> None:
        self._state = state
        self._clock = clock
        self._box = box

    async def get(self, tenant_id: str) -> Secrets:
        """The secrets of a tenant, made when they are first asked for. Raises WeirError."""
        async with self._state.writing() as connection:
            await self.ensure(connection, tenant_id)
            return await self._read(connection, tenant_id)

    async def rotate(self, tenant_id: str, overlap_ms: int) -> Secrets:
        """A new secret; the present one signs, too, for `overlap_ms`. Raises WeirError."""
        now_ms = self._clock.now_ms()
        async with self._state.writing() as connection:
            await self.ensure(connection, tenant_id)
            old = await self._read(connection, tenant_id)
            values = {
                "secret": self._box.seal(tenant_id, new_secret()),
                "previous": self._box.seal(tenant_id, old.secret) if overlap_ms else "",
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
            "secret": self._box.seal(tenant_id, new_secret()),
            "previous": "",
            "previous_until_ms": 0,
            "changed_ms": self._clock.now_ms(),
        }
        await connection.execute(self._state.insert(secrets).values(row).on_conflict_do_nothing())

    async def in_force(self, connection: AsyncConnection, tenant_id: str) -> tuple[str, ...]:
        """What signs now, the newest first. Raises WeirError: it cannot be decrypted."""
        found = await self._read(connection, tenant_id)
        if found.previous and found.previous_until_ms > self._clock.now_ms():
            return (found.secret, found.previous)
        return (found.secret,)

    async def seal_anew(self) -> None:
        """Encrypts with the present key what lies in clear, or under an earlier one."""
        others = select(secrets.c.tenant_id).where(
            secrets.c.secret.not_like(f"{self._box.prefix}%")
            | ((secrets.c.previous != "") & secrets.c.previous.not_like(f"{self._box.prefix}%"))
        )
        async with self._state.reading() as connection:
            tenants = list((await connection.execute(others)).scalars())
        for tenant_id in tenants:
            async with self._state.writing() as connection:
                with suppress(WeirError):
                    await self._read(connection, tenant_id)

    async def _read(self, connection: AsyncConnection, tenant_id: str) -> Secrets:
        columns = (
            secrets.c.secret,
            secrets.c.previous,
            secrets.c.previous_until_ms,
            secrets.c.changed_ms,
        )
        statement = select(*columns).where(secrets.c.tenant_id == tenant_id)
        row = (await connection.execute(statement.with_for_update())).one()
        try:
            found = [self._box.open(tenant_id, sealed) for sealed in row[:2]]
        except CannotOpen as error:
            _log.error("webhook_secret_unreadable", tenant_id=tenant_id, error=str(error))
            raise WeirError(
                Reason.STATE_CONFLICT,
                f"the webhook secret cannot be decrypted: {error}; set state_key_before to what "
                "the key was derived from (docs/security.md)",
            ) from None
        if any(sealed and not sealed.startswith(self._box.prefix) for sealed in row[:2]):
            values = [self._box.seal(tenant_id, secret) for secret in found]
            await connection.execute(
                secrets.update()
                .where(secrets.c.tenant_id == tenant_id)
                .values(secret=values[0], previous=values[1])
            )
        secret, previous = found
        return Secrets(secret, previous, row.previous_until_ms, row.changed_ms)
