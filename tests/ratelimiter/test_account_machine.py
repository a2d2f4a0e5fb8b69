"""Random histories of the memory store against the exact model, with invariant 2 at every step.

Reserve, extend, settle, refund, sweep, clock jumps, changed limits, crashes with replay. A crash
is what kill -9 leaves: the store is forgotten, its journal (perhaps with a torn last frame) is
all there is.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar, cast

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

from tests.ratelimiter.builders import SUBJECT, bucket, command, exact, lease, record_of
from tests.ratelimiter.exact_account import ExactAccount
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.change import Change, Move
from weir_ratelimiter.domain.demand import charge_for
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.ids import reservation_id
from weir_ratelimiter.domain.limit import Kind, Limit, Resource
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions

T = TypeVar("T")
# Thousands of journals are written and replayed; none has to survive this machine.
RAM = "/dev/shm" if Path("/dev/shm").is_dir() else None
TTL_MS = 30_000
OPTIONS = MemoryOptions(horizon_ms=10 * 366 * 86_400_000)
START_MS = 1_700_000_000_000
RESOURCES = {
    "rps": Resource.REQUESTS,
    "tpm": Resource.TOKENS,
    "itpm": Resource.INPUT_TOKENS,
    "otpm": Resource.OUTPUT_TOKENS,
}


def now(coroutine: Coroutine[None, None, T]) -> T:
    """Run a decision of the memory store, which waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise AssertionError("a decision waited")


sizes = st.integers(1, 60)
periods = st.sampled_from([1_000, 7_000, 60_000])


def draw_limits(data: st.DataObject) -> tuple[Limit, ...]:
    buckets = [
        bucket(
            name,
            resource,
            data.draw(st.integers(1, 6) if name == "rps" else st.integers(60, 300)),
            refill=data.draw(st.integers(1, 300)),
            period_ms=data.draw(periods),
            shadow=data.draw(st.booleans()) if name == "itpm" else False,
            max_debt=data.draw(st.integers(1, 100)),
        )
        for name, resource in RESOURCES.items()
    ]
    return (*buckets, lease("parallel", data.draw(st.integers(1, 4))))


class AccountMachine(RuleBasedStateMachine):
    """One memory store and one model, told the same."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(dir=RAM)
        self.now = START_MS
        self.serial = 0
        self.limits = draw_limits(data)
        self.model = ExactAccount()
        self.model.use(self.limits)
        self.moved: Counter[str] = Counter()
        self.settled: dict[tuple[str, str], int] = {}
        self.records: dict[str, Record] = {}
        self.open_store()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.loop.run_until_complete(self.store.close())
            self.loop.close()
            self.folder.cleanup()

    def open_store(self) -> None:
        self.log = MemoryLog.open(Path(self.folder.name), OPTIONS, self.now)
        self.audit(self.log)
        self.store = MemoryStore(self.log, lambda: self.now)

    def audit(self, log: MemoryLog) -> None:
        """Add up, beside the store, every movement that it writes down."""
        commit = log.commit

        def audited(change: Change) -> None:
            before = change.reservation and log.state.reservations.get(change.reservation.id)
            for move in change.moves:
                assert isinstance(move, Move)
                self.moved[move.key] += move.amount
            after = change.reservation
            if after is not None and before is not None and after.settlement is not None:
                requests = 1 if after.dispatched or after.state.name == "SETTLED" else 0
                for entry in before.entries:
                    if entry.kind is Kind.BUCKET:
                        self.settled[after.id, entry.key] = charge_for(
                            entry.resource, after.settlement.charged, requests
                        )
            commit(change)

        log.commit = audited  # type: ignore[method-assign]

    def names(self, *states: str) -> list[str]:
        return [name for name, hold in self.model.holds.items() if hold.state in states]

    def limits_by_key(self) -> dict[str, Limit]:
        return {limit.key: limit for limit in self.limits}

    # ---- operations

    @rule(prompt=sizes, output=sizes, room=st.integers(0, 40))
    def reserve(self, prompt: int, output: int, room: int) -> None:
        self.serial += 1
        name = f"r{self.serial}"
        asked = {
            Resource.REQUESTS: 1,
            Resource.TOKENS: prompt + output,
            Resource.INPUT_TOKENS: prompt,
            Resource.OUTPUT_TOKENS: output,
            Resource.CONCURRENCY: 1,
        }
        wanted = command(
            name, self.limits, prompt=prompt, output=output, max_new=output + room, ttl_ms=TTL_MS
        )
        if any(asked[lim.resource] > lim.capacity and not lim.shadow for lim in self.limits):
            return
        short = self.model.reserve(name, asked, output + room, TTL_MS, self.now)
        dry = now(self.store.reserve(wanted, dry_run=True))
        got = now(self.store.reserve(wanted))
        assert dry.shortfalls == got.shortfalls
        assert {s.limit.key for s in got.shortfalls} == set(short)
        for shortfall in got.shortfalls:
            if shortfall.limit.kind is Kind.BUCKET:
                assert shortfall.wait_ms == short[shortfall.limit.key]
        assert (got.reservation is None) == bool(short)
        if got.reservation is not None:
            self.records[name] = record_of(got.reservation, self.store.epoch)

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def reserve_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.holds)))
        hold = self.model.holds[name]
        again = command(
            name, self.limits, prompt=hold.prompt, output=1, max_new=hold.max_new, ttl_ms=TTL_MS
        )
        if hold.state == "RESERVED" and not self.model.lapsed(name, self.now):
            got = now(self.store.reserve(again))
            assert got.replayed
            return
        with pytest.raises(WeirError) as caught:
            now(self.store.reserve(again))
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
            with pytest.raises(WeirError) as caught:
                self.run_extend(name, news)
            assert caught.value.reason is Reason.RESERVATION_EXPIRED
            return
        granted = self.model.extend(name, prompt, output, more, owe, self.now)
        got = self.run_extend(name, news)
        assert got == (granted, hold.output)
        if twice and granted:
            assert self.run_extend(name, news) == (True, hold.output)

    def run_extend(self, name: str, news: Extension) -> tuple[bool, int]:
        got = now(self.store.extend(self.records[name], news, self.limits_by_key()))
        return not got.shortfalls, got.reservation.output_tokens

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data(), prompt=sizes, completion=st.integers(0, 90), known=st.booleans())
    def settle(self, data: st.DataObject, prompt: int, completion: int, known: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.holds)))
        hold = self.model.holds[name]
        report = exact(prompt, completion) if known else Report(None, Quality.UNKNOWN, 6)
        if hold.state != "SETTLED":
            self.model.end(name, "SETTLED", (prompt, completion) if known else None, self.now)
            already = False
        else:
            already = True
        got = now(self.store.settle(self.records[name], report, self.limits_by_key()))
        assert got.already is already
        self.check_charged(name)

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.holds)))
        was_open = self.model.holds[name].state == "RESERVED"
        if was_open:
            self.model.end(name, "REFUNDED", None, self.now)
        got = now(self.store.refund(self.records[name], 6, b"", self.limits_by_key()))
        assert got.already is not was_open
        self.check_charged(name)

    @rule()
    def sweep(self) -> None:
        self.model.shorten(self.now)
        due = {n for n, h in self.model.open().items() if self.now >= h.expires}
        found = now(self.store.lapsed(1_000))
        assert {reservation.request_id for reservation in found} == due
        for reservation in found:
            self.model.end(reservation.request_id, "EXPIRED", None, self.now)
            now(self.store.expire(reservation, self.limits_by_key()))
            self.check_charged(reservation.request_id)

    @rule(ms=st.one_of(st.integers(0, 5_000), st.integers(0, 120_000)))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(ms=st.sampled_from([-3_600_000, -61_000, -1_500, -3, 3_600_000, 86_400_000]))
    def clock_jumps(self, ms: int) -> None:
        self.now += ms

    @rule(data=st.data())
    def limits_change(self, data: st.DataObject) -> None:
        self.limits = draw_limits(data)
        self.model.use(self.limits)

    @rule(torn=st.binary(max_size=40))
    def crash(self, torn: bytes) -> None:
        path = self.log.journal_path
        content = path.read_bytes()
        self.loop.run_until_complete(self.store.close())
        del self.store
        path.write_bytes(content + torn)
        self.open_store()

    @rule()
    def compact(self) -> None:
        self.loop.run_until_complete(self.log.compact(self.now))

    # ---- what must hold at every step

    def check_charged(self, name: str) -> None:
        hold = self.model.holds[name]
        found = now(self.store.find(SUBJECT.tenant_id, reservation_id(SUBJECT.tenant_id, name)))
        assert found is not None
        assert found.state.name == hold.state
        assert found.settlement is not None
        charged = found.settlement.charged
        assert (charged.prompt_tokens, charged.completion_tokens) == hold.charged

    @invariant()
    def store_equals_model(self) -> None:
        if not hasattr(self, "store"):
            return
        for state in now(self.store.states(SUBJECT.tenant_id, self.limits)):
            limit = state.limit
            if limit.kind is Kind.LEASE:
                held = self.model.leases_held(limit.key, self.now)
                assert (state.remaining, state.held) == (limit.capacity - held, held)
            else:
                assert state.remaining == self.model.level(limit, self.now), limit.key
                assert state.held == self.model.held(limit.key), limit.key

    @invariant()
    def settled_and_held_equal_debits_less_refunds(self) -> None:
        if not hasattr(self, "store"):
            return
        for name in RESOURCES:
            settled = sum(units for (_, key), units in self.settled.items() if key == name)
            held = self.log.state.held.get(name, 0)
            assert settled + held == self.moved[name], name
            model = self.model
            assert model.settled.get(name, 0) + model.held(name) == model.debited.get(
                name, 0
            ) - model.refunded.get(name, 0)


def run(histories: int, steps: int) -> None:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        AccountMachine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=slow,
        ),
    )


def test_random_histories_equal_the_exact_model() -> None:
    run(40, 40)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_long_random_histories_equal_the_exact_model() -> None:
    run(250, 200)
