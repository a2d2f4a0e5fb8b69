"""The URLs that a tenant's webhooks go to."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select

from weir_core.errors import Reason, WeirError
from weir_gateway.state.state import State
from weir_gateway.webhooks.tables import endpoints

_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL: whether it gets every event, and since when it is disabled (Unix ms, 0: not)."""

    url: str
    registered: bool
    disabled_ms: int


class EndpointStore:
    """Methods raise WeirError(STATE_UNAVAILABLE or STATE_OFF).

    Args:
        state: the database.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    async def put(self, tenant_id: str, url: str) -> Endpoint:
        """Registers and enables a URL. Raises WeirError(STATE_CONFLICT) for one too many."""
        row = {"tenant_id": tenant_id, "url": url, "registered": True, "disabled_ms": 0}
        count = select(func.count()).where(
            endpoints.c.tenant_id == tenant_id, endpoints.c.registered
        )
        insert = self._state.insert(endpoints).values(row)
        async with self._state.writing() as connection:
            await connection.execute(
                insert.on_conflict_do_update(
                    index_elements=[endpoints.c.tenant_id, endpoints.c.url],
                    set_={"registered": True, "disabled_ms": 0},
                )
            )
            if (await connection.execute(count)).scalar_one() > _MOST:
                raise WeirError(
                    Reason.STATE_CONFLICT,
                    f"the tenant has {_MOST} webhook URLs already; delete some",
                    field="url",
                )
        return Endpoint(url, registered=True, disabled_ms=0)

    async def list(self, tenant_id: str) -> Sequence[Endpoint]:
        """The URLs of a tenant, in their order."""
        statement = (
            select(endpoints.c.url, endpoints.c.registered, endpoints.c.disabled_ms)
            .where(endpoints.c.tenant_id == tenant_id)
            .order_by(endpoints.c.url)
        )
        async with self._state.reading() as connection:
            return [Endpoint(*row) for row in await connection.execute(statement)]

    async def delete(self, tenant_id: str, url: str) -> None:
        """Removes a URL. Raises WeirError(NOT_FOUND)."""
        async with self._state.writing() as connection:
            done = await connection.execute(
                delete(endpoints).where(endpoints.c.tenant_id == tenant_id, endpoints.c.url == url)
            )
        if not done.rowcount:
            raise WeirError(
                Reason.NOT_FOUND, "the tenant has no such webhook URL; list them", field="url"
            )
