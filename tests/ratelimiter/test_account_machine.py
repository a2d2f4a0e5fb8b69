"""Random histories: memory, Redis and the exact model are told the same and must say the same.

Reserve, extend, settle, refund, sweep, adjustments, clock jumps, limits that are raised, cut,
removed and change their kind, crashes with replay. At every step every level is the model's, and
what was settled and what is held add up to debits less refunds (invariant 2), where settled is
what the ledger was told and held is what the reservations say.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.ratelimiter.builders import (
    SUBJECT,
    bucket,
    command,
    exact,
    in_flight,
    lease,
    record_of,
    window,
)
from tests.ratelimiter.exact_account import (
    CACHED_NANOS,
    INPUT_NANOS,
    OUTPUT_NANOS,
    ExactAccount,
    Hold,
    window_id,
)
from tests.ratelimiter.store_under_test import MemoryUnderTest, RedisUnderTest, StoreUnderTest
from tests.ratelimiter.valkey import Valkey
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.calendar import Unit
from weir_ratelimiter.domain.change import Count, LedgerEvent, WindowMove
from weir_ratelimiter.domain.demand import charges
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.ids import reservation_id
from weir_ratelimiter.domain.limit import HELD, Kind, Limit, Resource
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import Reserved, Store

T = TypeVar("T")
TTL_MS = 30_000
START_MS = 1_700_000_000_000
TENANT = SUBJECT.tenant_id
PRICE = Price(INPUT_NANOS, CACHED_NANOS, OUTPUT_NANOS)
RESOURCES = {
    "rps": Resource.REQUESTS,
    "tpm": Resource.TOKENS,
    "itpm": Resource.INPUT_TOKENS,
    "otpm": Resource.OUTPUT_TOKENS,
}
# A limit whose days become months and days again is forgotten by some stores, and then seeded.
DAILY = ("tpm", "itpm")
FURTHEST_MS = START_MS + 2 * 86_400_000

sizes = st.integers(1, 60)
periods = st.sampled_from([1_000, 7_000, 60_000])


def draw_limits(data: st.DataObject) -> tuple[Limit, ...]:
    """Every kind; some limits are gone, or are now what another kind was."""
    found: list[Limit] = []
    for name, resource in RESOURCES.items():
        shadow = data.draw(st.booleans()) if name == "itpm" else False
        match data.draw(st.sampled_from([Kind.BUCKET, Kind.BUCKET, Kind.WINDOW, None])):
            case Kind.BUCKET:
                found.append(_draw_bucket(data, name, resource, shadow=shadow))
            case Kind.WINDOW:
                found.append(_draw_window(data, name, resource, shadow=shadow))
    if data.draw(st.booleans()):
        found.append(_draw_window(data, "budget", Resource.COST, shadow=False))
    if data.draw(st.booleans()):
        found.append(lease("parallel", data.draw(st.integers(1, 4))))
    match data.draw(st.sampled_from([Kind.HOLD, Kind.HOLD, Kind.LEASE, None])):
        case Kind.HOLD:
            found.append(_draw_hold(data, "in_flight"))
        case Kind.LEASE:
            found.append(lease("in_flight", data.draw(st.integers(1, 4))))
    return tuple(found)


def _draw_hold(data: st.DataObject, name: str) -> Limit:
    return in_flight(
        name,
        data.draw(st.integers(120, 180)),
        shadow=not data.draw(st.integers(0, 3)),
        max_debt=data.draw(st.integers(0, 100)),
    )


def _draw_bucket(data: st.DataObject, name: str, resource: Resource, *, shadow: bool) -> Limit:
    return bucket(
        name,
        resource,
        data.draw(st.integers(1, 6) if name == "rps" else st.integers(60, 300)),
        refill=data.draw(st.integers(1, 300)),
        period_ms=data.draw(periods),
        shadow=shadow,
        max_debt=data.draw(st.integers(1, 100)),
    )


def _draw_window(data: st.DataObject, name: str, resource: Resource, *, shadow: bool) -> Limit:
    sizes_of = {"rps": st.integers(1, 12), "budget": st.integers(500, 3_000)}
    return window(
        name,
        resource,
        data.draw(sizes_of.get(name, st.integers(100, 600))),
        Unit.DAY if name in DAILY else Unit.MONTH,
        time_zone="Europe/Berlin" if name in DAILY else "UTC",
        shadow=shadow,
        max_debt=data.draw(st.integers(0, 100)),
    )


class Subject:
    """One store, the records that it gave out, and what it told the ledger."""

    def __init__(self, under_test: StoreUnderTest) -> None:
        self.under_test = under_test
        self.records: dict[str, Record] = {}
        self.ledger: list[LedgerEvent] = []

    @property
    def store(self) -> Store:
        return self.under_test.store

    async def pump(self) -> None:
        """What the ledger does: take events and acknowledge them."""
        entries = await self.store.outbox(1_000)
        self.ledger.extend(entry.event for entry in entries)
        await self.store.acknowledge([entry.id for entry in entries])

    async def told(self) -> list[LedgerEvent]:
        """Every event so far."""
        return self.ledger + [entry.event for entry in await self.store.outbox(1_000)]


class AccountMachine(RuleBasedStateMachine):
    """Stores and one model, told the same."""

    stores: Callable[[], Sequence[StoreUnderTest]]

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.loop = asyncio.new_event_loop()
        self.now = START_MS
        self.serial = 0
        self.limits = draw_limits(data)
        self.model = ExactAccount()
        self.model.use(self.limits)
        self.subjects = [Subject(under_test) for under_test in type(self).stores()]
        for subject in self.subjects:
            self.run(subject.under_test.start(lambda: self.now))

    def teardown(self) -> None:
        if hasattr(self, "subjects"):
            for subject in self.subjects:
                self.run(subject.under_test.stop())
            self.loop.close()

    def run(self, what: Awaitable[T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(what, 30))

    def names(self, *states: str) -> list[str]:
        return [name for name, hold in self.model.holds.items() if hold.state in states]

    def limits_by_key(self) -> dict[str, Limit]:
        return {limit.key: limit for limit in self.limits}

    # ---- operations

    @rule(data=st.data(), prompt=sizes, output=sizes, room=st.integers(0, 40))
    def reserve(self, data: st.DataObject, prompt: int, output: int, room: int) -> None:
        self.serial += 1
        name = f"r{self.serial}"
        requests = data.draw(st.sampled_from([1, 1, 1, 2]))
        wanted = command(
            name,
            self.limits,
            prompt=prompt,
            output=output,
            max_new=output + room,
            ttl_ms=TTL_MS,
            price=PRICE,
            requests=requests,
        )
        asked = {resource: wanted.amounts[resource] for resource in Resource}
        if any(asked[lim.resource] > lim.capacity and not lim.shadow for lim in self.limits):
            return
        self.seed(data, asked)
        short = self.model.reserve(name, asked, output + room, TTL_MS, self.now)
        for subject in self.subjects:
            dry = self.run(subject.store.reserve(wanted, dry_run=True))
            got = self.run(subject.store.reserve(wanted))
            assert dry.shortfalls == got.shortfalls
            self.check_decision(got, short)
            if got.reservation is not None:
                subject.records[name] = record_of(got.reservation, subject.store.epoch)

    def seed(self, data: st.DataObject, asked: dict[Resource, int]) -> None:
        """Let the stores know the windows of now, as the limiter does."""
        unknown = [
            limit
            for limit in self.limits
            if limit.kind is Kind.WINDOW
            and asked[limit.resource]
            and (limit.key, window_id(limit, self.now)) not in self.model.tallies
        ]
        moves = [
            WindowMove(lim.key, window_id(lim, self.now), Count(data.draw(st.integers(0, 30))))
            for lim in unknown
        ]
        for move in moves:
            self.model.seed(move.key, move.window, move.count.used)
        for subject in self.subjects:
            self.run(subject.store.seed(TENANT, moves))

    def check_decision(self, got: Reserved, short: dict[str, int | None]) -> None:
        assert not got.unseeded
        assert {s.limit.key for s in got.shortfalls} == set(short)
        for shortfall in got.shortfalls:
            if shortfall.limit.kind is not Kind.LEASE:
                assert shortfall.wait_ms == short[shortfall.limit.key]
        assert (got.reservation is None) == bool(short)

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def reserve_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.holds)))
        hold = self.model.holds[name]
        again = command(
            name, self.limits, prompt=hold.prompt, output=1, max_new=hold.max_new, ttl_ms=TTL_MS
        )
        for subject in self.subjects:
            if hold.state == "RESERVED" and not self.model.lapsed(name, self.now):
                assert self.run(subject.store.reserve(again)).replayed
                continue
            with pytest.raises(WeirError) as caught:
                self.run(subject.store.reserve(again))
            ended = hold.state in ("SETTLED", "REFUNDED")
            assert caught.value.reason is (
                Reason.RESERVATION_CONFLICT if ended else Reason.RESERVATION_EXPIRED
            )

    @precondition(lambda self: self.names("RESERVED"))
    @rule(data=st.data(), more=st.integers(0, 30), owe=st.booleans(), twice=st.booleans())
    def extend(self, data: st.DataObject, more: int, owe: bool, twice: bool) -> None:
        name = data.draw(st.sampled_from(self.names("RESERVED")))
        hold = self.model.holds[name]
        prompt = data.draw(st.integers(0, hold.prompt))
        output = data.draw(st.integers(0, hold.max_new))
        news = Extension(Usage(prompt, 0, output), additional_tokens=more, may_owe=owe)
        if self.model.lapsed(name, self.now):
            for subject in self.subjects:
                with pytest.raises(WeirError) as caught:
                    self.extend_at(subject, name, news)
                assert caught.value.reason is Reason.RESERVATION_EXPIRED
            return
        granted = self.model.extend(name, prompt, output, more, owe, self.now)
        for subject in self.subjects:
            assert self.extend_at(subject, name, news) == (granted, hold.output)
            if twice and granted:
                assert self.extend_at(subject, name, news) == (True, hold.output)

    def extend_at(self, subject: Subject, name: str, news: Extension) -> tuple[bool, int]:
        got = self.run(subject.store.extend(subject.records[name], news, self.limits_by_key()))
        return not got.shortfalls, got.reservation.output_tokens

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data(), prompt=sizes, completion=st.integers(0, 90), known=st.booleans())
    def settle(self, data: st.DataObject, prompt: int, completion: int, known: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.holds)))
        already = self.model.holds[name].state == "SETTLED"
        report = exact(prompt, completion) if known else Report(None, Quality.UNKNOWN, 6)
        if not already:
            self.model.end(name, "SETTLED", (prompt, completion) if known else None, self.now)
        for subject in self.subjects:
            record = subject.records[name]
            got = self.run(subject.store.settle(record, report, self.limits_by_key()))
            assert got.already is already
        self.check_charged(name)

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.holds)))
        was_open = self.model.holds[name].state == "RESERVED"
        if was_open:
            self.model.end(name, "REFUNDED", None, self.now)
        for subject in self.subjects:
            record = subject.records[name]
            got = self.run(subject.store.refund(record, 6, b"", self.limits_by_key()))
            assert got.already is not was_open
        self.check_charged(name)

    @rule()
    def sweep(self) -> None:
        self.model.shorten(self.now)
        due = {n for n, h in self.model.open().items() if self.now >= h.expires}
        for name in due:
            self.model.end(name, "EXPIRED", None, self.now)
        for subject in self.subjects:
            found = self.run(subject.store.lapsed(1_000))
            assert {reservation.request_id for reservation in found} == due
            for reservation in found:
                self.run(subject.store.expire(reservation, self.limits_by_key()))
        for name in due:
            self.check_charged(name)

    @precondition(lambda self: any(lim.kind not in HELD for lim in self.limits))
    @rule(data=st.data(), given=st.integers(-200, 200), twice=st.booleans())
    def adjust(self, data: st.DataObject, given: int, twice: bool) -> None:
        self.serial += 1
        counted = [lim for lim in self.limits if lim.kind not in HELD]
        limit = data.draw(st.sampled_from(counted))
        self.seed(data, {resource: int(resource is limit.resource) for resource in Resource})
        self.model.adjust(limit, given, self.now)
        adjustment = Adjustment(f"a{self.serial}", SUBJECT, limit, given, "goodwill")
        for subject in self.subjects:
            assert not self.run(subject.store.adjust(adjustment)).replayed
            if twice:
                assert self.run(subject.store.adjust(adjustment)).replayed

    @rule()
    def pump(self) -> None:
        for subject in self.subjects:
            self.run(subject.pump())

    @rule(ms=st.one_of(st.integers(0, 5_000), st.integers(0, 120_000)))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(ms=st.sampled_from([-3_600_000, -61_000, -1_500, -3, 3_600_000, 86_400_000]))
    def clock_jumps(self, ms: int) -> None:
        # It runs every second, and learns from it what the time was.
        self.sweep()
        # Stores keep the latest windows of each limit, and no more.
        if self.now + ms <= FURTHEST_MS:
            self.now += ms

    @rule(data=st.data())
    def limits_change(self, data: st.DataObject) -> None:
        self.limits = draw_limits(data)
        self.model.use(self.limits)

    @rule(torn=st.binary(max_size=40))
    def crash(self, torn: bytes) -> None:
        for subject in self.subjects:
            self.run(subject.under_test.crash(torn))

    @rule()
    def tidy(self) -> None:
        for subject in self.subjects:
            self.run(subject.under_test.tidy())

    # ---- what must hold at every step

    def check_charged(self, name: str) -> None:
        hold = self.model.holds[name]
        for subject in self.subjects:
            found = self.run(subject.store.find(TENANT, reservation_id(TENANT, name)))
            assert found is not None
            assert found.state.name == hold.state
            assert found.settlement is not None
            charged = found.settlement.charged
            assert (charged.prompt_tokens, charged.completion_tokens) == hold.charged

    @invariant()
    def stores_equal_the_model(self) -> None:
        for subject in getattr(self, "subjects", ()):
            for state in self.run(subject.store.states(TENANT, self.limits)):
                assert (state.remaining, state.held) == self.expected(state.limit), state

    def expected(self, limit: Limit) -> tuple[int, int]:
        """What is free, and what is held."""
        if limit.kind is Kind.LEASE:
            held = self.model.leases_held(limit.key, self.now)
            return limit.capacity - held, held
        held = self.model.held(limit.key, limit.kind, window_id(limit, self.now))
        if limit.kind is Kind.HOLD:
            return limit.capacity - held, held
        if limit.kind is Kind.WINDOW:
            return self.model.free(limit, self.now), held
        return self.model.level(limit, self.now), held

    @invariant()
    def settled_and_held_equal_debits_less_refunds(self) -> None:
        for subject in getattr(self, "subjects", ()):
            events = self.run(subject.told())
            rows = {(event.reservation_id, event.kind) for event in events}
            assert len(rows) == len(events)
            held = self.run(subject.store.open_reservations(TENANT, (0, ""), 1_000))
            for key in (*RESOURCES, "budget", "in_flight"):
                entries = [e for r in held for e in r.entries if e.kind is not Kind.LEASE]
                units = [entry.amount for entry in entries if entry.key == key]
                debits = self.model.debited.get(key, 0) - self.model.refunded.get(key, 0)
                settled = self.settled(events, key) + self.model.lost.get(key, 0)
                assert settled + sum(units) == debits, key

    def settled(self, events: Sequence[LedgerEvent], key: str) -> int:
        holds = self.model.holds
        return sum(
            _charged(event, holds[event.request_id], key) for event in events if event.outcome
        )


def _charged(event: LedgerEvent, hold: Hold, key: str) -> int:
    """Units that an event says a limit was charged, if the reservation had a part of it."""
    part = hold.parts.get(key)
    if part is None:
        return 0
    resource = part.limit.resource
    if resource is Resource.REQUESTS:
        return event.requests
    before = charges(event.previous, 0, event.price)[resource]
    return charges(event.charged, 0, event.price)[resource] - before


def run(stores: Callable[[], Sequence[StoreUnderTest]], histories: int, steps: int) -> None:
    machine = type("AccountMachine", (AccountMachine,), {"stores": staticmethod(stores)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_random_histories_equal_the_exact_model() -> None:
    run(lambda: [MemoryUnderTest()], 25, 40)


def test_memory_and_redis_and_the_exact_model_are_equal(valkey_server: Valkey) -> None:
    run(lambda: [MemoryUnderTest(), RedisUnderTest(valkey_server)], 8, 40)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_ten_thousand_steps_equal_the_exact_model(valkey_server: Valkey) -> None:
    run(lambda: [MemoryUnderTest(), RedisUnderTest(valkey_server)], 50, 200)
