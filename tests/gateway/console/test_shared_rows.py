"""Rows of sessions in databases of both kinds."""

import pytest
from pydantic import SecretStr

from tests.gateway.state_databases import state
from weir_core.clock import ManualClock
from weir_core.errors import WeirError
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.session_seal import SessionSeal
from weir_gateway.console.session_store import SessionStore
from weir_gateway.console.settings import ConsoleSettings
from weir_gateway.console.shared_sessions import SharedSessions
from weir_gateway.state.database import StateDatabase

__all__ = ["state"]

TENANT = Identity(Role.TENANT, Method.KEY, "acme/zoë", "acme", "zoë", "k")
IDLE_S, MOST_S = 600, 3_600


class Site:
    """One of several gateways on a clock that a test moves."""

    def __init__(self, database: StateDatabase, clock: ManualClock) -> None:
        self.store = SessionStore(clock, lambda _: None, idle_s=IDLE_S, most_s=MOST_S, most=10)
        seal = SessionSeal(SecretStr("a-cluster-secret"), None, ConsoleSettings())
        self.shared = SharedSessions(self.store, database, clock, idle_s=IDLE_S, seal=seal)

    async def takes(self, cookie: str) -> bool:
        await self.shared.recall(cookie)
        try:
            return self.store.find(cookie).identity == TENANT
        except WeirError:
            return False


async def test_ends_by_time_are_those_of_all_gateways(state: StateDatabase) -> None:
    clock = ManualClock(1_800_000_000_000_000, 5_000_000)
    one, other = Site(state, clock), Site(state, clock)
    cookie, session = one.store.open(TENANT)
    await one.shared.opened(session)
    for _ in range(5):
        # Calls to either put the idle end off for both.
        clock.advance_us(590_000_000)
        assert await other.takes(cookie)
        clock.advance_us(20_000_000)
        assert await one.takes(cookie)
    assert other.store.find(cookie).expire_ms == pytest.approx(session.expire_ms, abs=2)
    clock.advance_us((MOST_S - 5 * 610) * 1_000_000)
    assert not await other.takes(cookie)
    assert not await one.takes(cookie)


async def test_an_idle_session_ends_everywhere_and_for_good(state: StateDatabase) -> None:
    clock = ManualClock(1_800_000_000_000_000, 5_000_000)
    one, other = Site(state, clock), Site(state, clock)
    cookie, session = one.store.open(TENANT)
    await one.shared.opened(session)
    clock.advance_us(IDLE_S * 1_000_000)
    assert not await other.takes(cookie)
    assert not await one.takes(cookie)
    again, session = one.store.open(TENANT)
    await one.shared.opened(session)
    assert await other.takes(again)
    other.store.end(other.store.find(again))
    assert not await other.takes(again), "it is not taken over again"
    clock.advance_us(5_000_000)
    assert not await one.takes(again)
