"""The event stream: at once, when something changes, and to its end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.gateway.console.browser import ADMIN_SECRET, Browser, browser, told
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir_core.clock import ManualClock
from weir_core.errors import WeirError
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.live import Live
from weir_gateway.console.session_store import Session, SessionStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADMIN = Identity(Role.ADMIN, Method.SECRET, "admin")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("site")
    async with running_gateway(folder, admin_secret=ADMIN_SECRET) as gateway:
        yield gateway


@asynccontextmanager
async def watching(one: Browser) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """Events of the stream: name and data."""
    async with one.http.stream("GET", "/console/api/live") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        async with aclosing(_events(answer)) as events:
            yield events


async def _events(answer: Any) -> AsyncGenerator[tuple[str, Any], None]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, orjson.loads(line.removeprefix("data: "))


async def test_it_tells_the_overview_and_ends_with_the_session(site: Gateway) -> None:
    async with (
        browser(site, ADMIN_SECRET) as one,
        browser(site, ADMIN_SECRET) as other,
        watching(one) as events,
    ):
        name, first = await anext(events)
        assert name == "overview"
        assert first.keys() == (await one.get("overview")).json().keys()
        # Nobody else's end is theirs.
        await other.post("logout")
        await one.post("logout")
        while name != "end":
            name, last = await anext(events)
        assert "ended" in last["message"]
    await eventually(lambda: live_of(site).viewers == 0)


async def test_a_tenants_stream_is_its_own(site: Gateway) -> None:
    headers = {"authorization": f"Bearer {site.other_key.secret}"}
    body = {"model": "tiny", "prompt": "hi", "max_tokens": 2}
    answer = await site.http.post("/v1/completions", json=body, headers=headers)
    assert answer.status_code == 200
    async with browser(site, site.key.secret) as one, watching(one) as events:
        _, told = await anext(events)
        assert told["workers"] is None
        assert "globex" not in orjson.dumps(told).decode()


async def test_streams_are_bounded_and_free_their_place(site: Gateway) -> None:
    async with browser(site, ADMIN_SECRET) as one:
        async with watching(one), watching(one), watching(one), watching(one):
            assert told(await one.get("live")) == (429, "RATE_LIMIT_EXCEEDED")
        await eventually(lambda: live_of(site).viewers == 0)
        async with watching(one) as events:
            await anext(events)


def live_of(site: Gateway) -> Live:
    assert site.app.console is not None
    return site.app.console.live


class Source:
    """Ticks when a test says so; counts how often the overview was made."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sessions = SessionStore(
            self.clock, lambda _: None, idle_s=3_600, most_s=7_200, most=100
        )
        self.state: dict[str, Any] = {"waiting": 0}
        self.made = 0
        self._tick = asyncio.Semaphore(0)
        self.live = Live(self._overview, self._ticks, self.sessions)

    def tick(self) -> None:
        self._tick.release()

    async def _overview(self, scope: str) -> dict[str, Any]:
        self.made += 1
        return {"time": str(self.made), "scope": scope, **self.state}

    async def _ticks(self, _: float) -> AsyncGenerator[None, None]:
        while True:
            await self._tick.acquire()
            yield


async def data(events: AsyncIterator[bytes]) -> dict[str, Any]:
    """Of the next event that has some."""
    async for event in events:
        if event.startswith(b"event: overview"):
            told: dict[str, Any] = orjson.loads(event.partition(b"data: ")[2])
            return told
    raise AssertionError("the stream has ended")


async def test_one_tenant_cannot_take_the_streams_of_others() -> None:
    source = Source()

    def sessions(tenant: str, count: int) -> list[Session]:
        names = [Identity(Role.TENANT, Method.KEY, "x", tenant, "u", str(n)) for n in range(count)]
        return [source.sessions.open(who)[1] for who in names]

    async with AsyncExitStack() as streams:

        async def watch(session: Session) -> None:
            events = await streams.enter_async_context(aclosing(source.live.watch(session)))
            await anext(events)

        for session in sessions("acme", 8):
            await watch(session)
        with pytest.raises(WeirError, match="8 of a tenant"):
            source.live.check_room(sessions("acme", 1)[0])
        for tenant in ("b", "c", "d"):
            for session in sessions(tenant, 8):
                await watch(session)
        with pytest.raises(WeirError, match="32 in all"):
            source.live.check_room(sessions("e", 1)[0])
        source.live.check_room(source.sessions.open(ADMIN)[1])


async def test_only_changes_are_sent_and_only_while_somebody_looks() -> None:
    source = Source()
    _, session = source.sessions.open(ADMIN)
    source.tick()
    await asyncio.sleep(0)
    assert source.made == 0
    async with aclosing(source.live.watch(session)) as events:
        assert (await data(events))["time"] == "1"
        for _ in range(3):
            source.tick()
        await eventually(lambda: source.made == 4)
        source.state = {"waiting": 5}
        source.tick()
        told = await data(events)
        # The three that changed nothing but the time were not sent.
        assert (told["time"], told["waiting"]) == ("5", 5)
    source.tick()
    await asyncio.sleep(0.05)
    assert source.made == 5
    assert session.streams == 0


async def test_all_who_look_at_the_same_share_one_making_and_see_the_last_state_at_once() -> None:
    source = Source()
    _, session = source.sessions.open(ADMIN)
    async with aclosing(source.live.watch(session)) as first:
        source.tick()
        await data(first)
        async with aclosing(source.live.watch(session)) as second:
            assert (await data(second))["time"] == "1"
        source.state = {"waiting": 1}
        source.tick()
        assert (await data(first))["waiting"] == 1
        assert source.made == 2


async def test_who_reads_slowly_gets_the_newest_alone() -> None:
    source = Source()
    _, session = source.sessions.open(ADMIN)
    async with aclosing(source.live.watch(session)) as events:
        source.tick()
        await data(events)
        for waiting in range(1, 50):
            source.state = {"waiting": waiting}
            source.tick()
            made = source.made
            await eventually(lambda made=made: source.made > made)  # type: ignore[misc]
        assert (await data(events))["waiting"] == 49


async def test_a_stop_ends_every_stream() -> None:
    source = Source()
    _, session = source.sessions.open(ADMIN)

    async def read() -> list[bytes]:
        return [event async for event in source.live.watch(session)]

    reading = asyncio.create_task(read())
    await eventually(lambda: source.live.viewers == 1)
    await source.live.stop()
    async with asyncio.timeout(20):
        assert (await reading)[0].startswith(b"retry: ")


async def test_one_service_that_is_away_costs_its_cards_alone(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, admin_secret=ADMIN_SECRET) as gateway,
        browser(gateway, ADMIN_SECRET) as one,
    ):
        await gateway.scheduler.server.stop()
        card = (await one.get("workers")).json()
        assert card["data"] is None
        assert card["error"]["reason"] == "SCHEDULER_UNAVAILABLE"
        answer = await one.get("overview")
        assert answer.status_code == 200
        assert answer.json()["traffic"]["error"] is None
        tenant = (await one.get("tenants/acme")).json()
        assert tenant["limits"]["error"] is None
        await gateway.limiter.server.stop()
        tenant = (await one.get("tenants/acme")).json()
        assert tenant["tenant"]["id"] == "acme"
        assert tenant["limits"]["error"]["reason"] == "LIMITER_UNAVAILABLE"
        listed = (await one.get("tenants")).json()
        assert [one["id"] for one in listed["tenants"]] == ["acme", "globex"]
        assert listed["usage_error"]["reason"] == "LIMITER_UNAVAILABLE"
