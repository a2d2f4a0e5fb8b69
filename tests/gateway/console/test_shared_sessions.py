"""Several gateways behind one address: any takes a session, and what one ends is over for all."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import orjson
import pytest
import pytest_asyncio
from pydantic import SecretStr
from sqlalchemy import func, select, update

from tests.gateway.console.browser import ADMIN_SECRET, Browser, browser, told
from tests.gateway.harness import Gateway, running_gateway
from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_gateway.console import shared_sessions
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.oidc.pending import Pending
from weir_gateway.console.session_seal import SessionSeal
from weir_gateway.console.settings import ConsoleSettings
from weir_gateway.console.tables import console_sessions

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Gateway]]:
    """Two gateways that share a state."""
    folder = tmp_path_factory.mktemp("pair")
    settings: dict[str, Any] = {
        "admin_secret": ADMIN_SECRET,
        "state_url": f"sqlite:///{folder}/state.sqlite",
        "console": {"public_url": "http://console.example:8080"},
    }
    async with AsyncExitStack() as stack:
        gateways = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            running = running_gateway(folder / name, **settings)
            gateways.append(await stack.enter_async_context(running))
        yield gateways


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways look for what others did at every call."""
    monkeypatch.setattr(shared_sessions, "_FRESH_US", 0)
    monkeypatch.setattr(shared_sessions, "_USED_US", 0)


@pytest_asyncio.fixture(loop_scope="module")
async def both(pair: list[Gateway]) -> AsyncIterator[list[Browser]]:
    """One browser, whose calls go to the one gateway or the other."""
    async with browser(pair[0], ADMIN_SECRET) as one, browser(pair[1]) as other:
        for name, value in one.http.cookies.items():
            other.http.cookies.set(name, value)
        other.session = one.session
        yield [one, other]


async def test_any_gateway_takes_a_session_and_its_word(both: list[Browser]) -> None:
    one, other = both
    assert "weir_console_8080" in one.http.cookies
    answer = await other.get("session")
    assert (answer.status_code, answer.json()["csrf"]) == (200, one.session["csrf"])
    assert (await other.post("logout", **{"x-weir-csrf": "x"})).status_code == 403
    assert (await other.post("logout")).status_code == 204
    assert told(await other.get("session")) == (401, "API_KEY_MISSING")


async def test_what_one_ends_is_over_for_the_other(both: list[Browser], at_once: None) -> None:
    one, other = both
    assert await one.alive()
    assert await other.alive()
    await one.post("logout")
    assert not await other.alive()
    assert not await one.alive()


async def test_an_open_stream_ends_with_a_session_that_was_ended_elsewhere(
    both: list[Browser], at_once: None
) -> None:
    one, other = both
    async with one.http.stream("GET", "/console/api/live") as answer:
        signed_out = False
        async for line in answer.aiter_lines():
            if not signed_out:
                signed_out = (await other.post("logout")).status_code == 204
            if line == "event: end":
                return
    raise AssertionError("the stream went on")


async def test_the_database_holds_nothing_that_opens_a_session(
    pair: list[Gateway], both: list[Browser]
) -> None:
    edge = pair[0].app.edge
    assert edge is not None
    async with edge.state.reading() as connection:
        rows = str((await connection.execute(select(console_sessions))).all())
    for secret in (*both[0].http.cookies.values(), both[0].session["csrf"], ADMIN_SECRET):
        assert secret not in rows


async def test_without_its_database_each_gateway_goes_on_with_what_it_knows(
    pair: list[Gateway], both: list[Browser], at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both
    edge = pair[0].app.edge
    assert edge is not None

    def away(limit_s: float = 0) -> Any:
        raise WeirError(Reason.STATE_UNAVAILABLE, "the state is away")

    async with browser(pair[0]) as third:
        with monkeypatch.context() as patch:
            patch.setattr(edge.state, "reading", away)
            patch.setattr(edge.state, "writing", away)
            assert await one.alive()
            await third.sign_in(ADMIN_SECRET)
            assert await third.alive()
            await third.post("logout")
            await one.post("logout")
            assert not await one.alive()
            assert await other.alive(), "nobody could tell it yet"
        assert not await third.alive()
    assert not await one.alive()
    assert not await other.alive()


async def test_a_row_that_no_gateway_made_opens_nothing(
    pair: list[Gateway], both: list[Browser]
) -> None:
    one, other = both
    async with browser(pair[0], pair[0].key.secret) as tenant:
        cookie = tenant.http.cookies["weir_console_8080"]
        admin = Identity(Role.ADMIN, Method.SECRET, "admin")
        raised = orjson.dumps(asdict(admin)).decode()
        edge = pair[0].app.edge
        assert edge is not None
        async with edge.state.writing() as connection:
            of_cookie = console_sessions.c.name == sha256(cookie.encode()).hexdigest()
            changed = update(console_sessions).where(of_cookie).values(identity=raised)
            assert (await connection.execute(changed)).rowcount == 1
        other.http.cookies.set("weir_console_8080", cookie)
        assert not await other.alive()
        assert await one.alive()


async def test_a_seal_is_of_the_secret_that_was_shown() -> None:
    token, settings = SecretStr("a-cluster-secret"), ConsoleSettings()
    admin = Identity(Role.ADMIN, Method.SECRET, "admin")
    tenant = Identity(Role.TENANT, Method.KEY, "a/u", "a", "u", "k")
    sso = Identity(Role.ADMIN, Method.OIDC, "ann")
    before = SessionSeal(token, SecretStr("one"), settings)
    secret = SessionSeal(token, SecretStr("two"), settings)
    roles = SessionSeal(token, SecretStr("one"), ConsoleSettings(oidc_roles={"x": "admin"}))

    def changed(after: SessionSeal) -> list[bool]:
        return [before.of("n", who, 1) != after.of("n", who, 1) for who in (admin, tenant, sso)]

    assert changed(before) == [False, False, False]
    assert changed(secret) == [True, False, False]
    assert changed(roles) == [False, False, True]
    assert changed(SessionSeal(SecretStr("other"), SecretStr("one"), settings)) == [True] * 3


async def test_sessions_that_are_over_leave_the_database(pair: list[Gateway]) -> None:
    edge = pair[0].app.edge
    assert edge is not None
    old = {"name": "old", "identity": "{}", "seal": "", "used_ms": 1, "ends_ms": 2}
    async with edge.state.writing() as connection:
        await connection.execute(edge.state.insert(console_sessions).values(old))
    async with browser(pair[0], ADMIN_SECRET), edge.state.reading() as connection:
        count = select(func.count()).where(console_sessions.c.name == "old")
        assert (await connection.execute(count)).scalar_one() == 0


async def test_a_login_at_the_provider_is_taken_by_any_gateway_once_and_in_time() -> None:
    clock = ManualClock()
    one, other = Pending(clock), Pending(clock)
    begun = one.begin("/console/queue")
    assert other.take(begun.state, "") is None
    assert other.take(begun.state, one.begin("/console/").browser) is None
    assert other.take(begun.nonce, begun.browser) is None
    later = begun.browser.replace(f".{begun.began_us}.", f".{begun.began_us + 9**9}.")
    assert other.take(begun.state, later) is None, "the time is part of what the state is made of"
    taken = other.take(begun.state, begun.browser)
    assert taken == begun
    assert taken.page == "/console/queue"
    assert other.take(begun.state, begun.browser) is None
    for part in (begun.browser, begun.verifier):
        assert part not in begun.state + begun.nonce + begun.challenge
    late = one.begin("/console/")
    clock.advance_us(600_000_000)
    assert other.take(late.state, late.browser) is None
    for odd in ("a.b.c", "x" * 43 + ".1.!", ".", "x" * 43 + ".٣.", "\ud800.1.x"):
        assert other.take("", odd) is None
