"""An exception that nobody foresaw costs one request, and never the others."""

from typing import Any

import pytest

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, new_request
from weir_core.errors import Reason
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.placement.placer import Placer
from weir_scheduler.queues.lane import Lane
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import Worker


class Broken(Exception):
    """What no code expects."""


def bench_of(rules: FixedRules | None = None) -> tuple[Bench, list[str]]:
    told: list[str] = []
    bench = Bench(rules, on_fault=lambda what, _: told.append(what))
    bench.worker()
    return bench, told


def assert_only_bad_is_rejected(bench: Bench, told: list[str]) -> None:
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason, cause.metadata) == ("bad", Reason.INTERNAL, {"id": "bad"})
    assert told == ["bad"]
    assert set(bench.dispatched_ids()) - {"bad"} == {"before", "after"}
    assert bench.scheduler.waiting == 0


def enqueue_three(bench: Bench) -> None:
    for request_id in ("before", "bad", "after"):
        bench.scheduler.enqueue(GATEWAY, new_request(request_id))
    bench.scheduler.pump()


def test_a_placement_that_fails_rejects_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = bench_of()
    sound = Placer.place

    def place(self: Placer, entry: Any, *others: Any) -> Any:
        if entry.request_id == "bad":
            raise Broken
        return sound(self, entry, *others)

    monkeypatch.setattr(Placer, "place", place)
    enqueue_three(bench)
    assert_only_bad_is_rejected(bench, told)


def test_a_failure_after_the_wait_has_ended_loses_no_request_and_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, it was in no queue any more and at no worker: its client waited to its timeout."""
    bench, told = bench_of()
    sound = Worker.dispatched

    def dispatched(self: Worker, key: AttemptKey, *others: Any) -> None:
        if key.request_id == "bad":
            raise Broken
        sound(self, key, *others)

    monkeypatch.setattr(Worker, "dispatched", dispatched)
    enqueue_three(bench)
    assert_only_bad_is_rejected(bench, told)
    assert bench.scheduler.attempts == bench.requests_of() == 2


def test_a_grant_that_cannot_be_sent_is_aborted_and_its_place_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, told = bench_of()
    sound = bench.out.dispatched

    def dispatched(gateway: str, dispatch: Dispatch) -> None:
        if dispatch.key.request_id == "bad":
            raise Broken
        sound(gateway, dispatch)

    monkeypatch.setattr(bench.out, "dispatched", dispatched)
    enqueue_three(bench)
    assert_only_bad_is_rejected(bench, told)
    assert bench.out.aborts == [("w1", AttemptKey("bad", 1))]
    for dispatch in bench.out.dispatches:
        bench.start(dispatch)
    bench.advance_reporting(4 * SECOND)
    assert bench.scheduler.attempts == 2


def test_an_observer_that_fails_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = bench_of()
    sound = bench.seen.left

    def left(record: Any, *others: Any) -> None:
        if record.entry.request_id == "bad":
            raise Broken
        sound(record, *others)

    monkeypatch.setattr(bench.seen, "left", left)
    enqueue_three(bench)
    assert_only_bad_is_rejected(bench, told)


def test_a_timer_that_fails_ends_the_wait_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer is due once: without an end now the request would wait for ever."""
    bench, told = bench_of(FixedRules(workers=WorkerRules(1, 65_536, 512, 1)))
    bench.enqueue("runs")
    bench.enqueue("bad")

    def forecast(*_: Any, **__: Any) -> None:
        raise Broken

    monkeypatch.setattr(Lane, "forecast", forecast)
    bench.start(bench.out.dispatches[0], output=1)
    bench.advance_reporting(31 * SECOND)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason, told) == ("bad", Reason.INTERNAL, ["bad"])


def test_a_lane_that_fails_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = bench_of()
    sound, failures = Lane.head, [Broken(), Broken()]

    def head(self: Lane, *others: Any) -> Any:
        if failures:
            raise failures.pop()
        return sound(self, *others)

    monkeypatch.setattr(Lane, "head", head)
    bench.enqueue("r")
    assert (len(told), bench.dispatched_ids()) == (1, [])
    bench.advance(3 * SECOND)
    assert (len(told), bench.dispatched_ids()) == (2, ["r"])


def test_a_worker_timer_that_fails_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = bench_of()
    sound, failures = Worker.mark_lost, [Broken()]

    def mark_lost(self: Worker, *others: Any) -> None:
        if failures:
            raise failures.pop()
        sound(self, *others)

    monkeypatch.setattr(Worker, "mark_lost", mark_lost)
    bench.advance(7 * SECOND)
    assert len(told) == 1
    assert [worker.lost for worker in bench.scheduler.workers()] == [True]


def test_simulations_and_tests_see_every_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.worker()

    def place(*_: Any) -> None:
        raise Broken

    monkeypatch.setattr(Placer, "place", place)
    with pytest.raises(Broken):
        bench.enqueue("r")
