"""Trails are kept within a bound, of which no tenant takes another's part."""

import itertools

import pytest

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.directory.v1.directory_pb2 import Policy
from weir_core.clock import ManualClock
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.insight.request_book import RequestBook, level_for

_numbers = itertools.count(1)


def caller(tenant: str) -> Caller:
    return Caller(tenant, "u", "k", "p", Policy(), frozenset(), 0, 1)


def refused(book: RequestBook, clock: ManualClock, tenant: str) -> Trail:
    trail = Trail(f"req_{next(_numbers)}", caller(tenant), clock, book.keep)
    trail.refuse(WeirError(Reason.RATE_LIMIT_EXCEEDED, "too many"))
    return trail


def test_a_flood_of_one_tenant_pushes_out_its_own_alone() -> None:
    clock = ManualClock()
    book = RequestBook(clock, most=1_000, keep_s=3_600)
    quiet = [refused(book, clock, "quiet") for _ in range(400)]
    flood = [refused(book, clock, "flood") for _ in range(20_000)]
    assert len(book) <= 1_000
    assert all(book.find(trail.request_id) is trail for trail in quiet)
    assert book.find(flood[-1].request_id) is flood[-1]
    assert book.find(flood[0].request_id) is None
    kept = [trail for trail in flood if book.find(trail.request_id)]
    assert kept == flood[-len(kept) :], "the oldest go first"


def test_many_equal_tenants_share_the_room() -> None:
    clock = ManualClock()
    book = RequestBook(clock, most=1_000, keep_s=3_600)
    for _ in range(100):
        for tenant in range(50):
            refused(book, clock, f"t{tenant}")
    sizes = [len(list(book.trails(f"t{tenant}"))) for tenant in range(50)]
    assert sum(sizes) == len(book) <= 1_000
    assert min(sizes) >= 18


def test_what_lives_is_never_dropped_and_what_is_old_is_not_found() -> None:
    clock = ManualClock()
    book = RequestBook(clock, most=100, keep_s=60)
    living = Trail("req_living", caller("acme"), clock, book.keep)
    living.live = object()  # type: ignore[assignment]
    book.keep(living)
    old = refused(book, clock, "acme")
    for _ in range(1_000):
        refused(book, clock, "acme")
    assert book.find("req_living") is living
    assert book.find(old.request_id) is None
    clock.advance_us(61_000_000)
    assert book.find("req_living") is living
    assert [*book.trails()] == [living]
    refused(book, clock, "acme")
    assert len(book) == 2, "what was old is gone with the next that comes"


def test_a_form_that_another_stands_for_is_not_found() -> None:
    clock = ManualClock()
    book = RequestBook(clock, most=100, keep_s=60)
    trail = refused(book, clock, "acme")
    trail.gone = True
    assert book.find(trail.request_id) is None
    assert not list(book.trails("acme"))


@pytest.mark.parametrize(
    ("sizes", "needed", "level"),
    [([10], 3, 7), ([10, 4], 3, 7), ([10, 9], 3, 8), ([5, 5, 5], 1, 4), ([2, 1], 3, 0)],
)
def test_the_largest_are_cut_to_one_level(sizes: list[int], needed: int, level: int) -> None:
    assert level_for(sizes, needed) == level


def test_a_trail_holds_a_bounded_number_of_moments() -> None:
    trail = Trail("req_1", caller("acme"), ManualClock())
    for attempt in range(1_000):
        trail.note(Moment.REQUEUED, attempt=attempt)
    assert len(trail.moments) == 128
    assert trail.left_out == 1_001 - 128
    assert trail.moments[0][1] is Moment.ARRIVED
    assert trail.moments[-1][2] == {"attempt": 999}


def test_a_kept_error_holds_no_frames_and_so_nothing_of_a_prompt() -> None:
    trail = Trail("req_1", caller("acme"), ManualClock())
    for error in (
        WeirError(Reason.INTERNAL, "a", field="f", retry_after_s=1.5, metadata={"limit": "x"}),
        LimitExceeded(Reason.QUOTA_STOPPED, "b", [], retry_after_s=None),
    ):
        try:
            raise error
        except WeirError as raised:
            trail.note(Moment.STOPPED, error=raised)
    trail.refuse(error)
    kept = [fields["error"] for _, _, fields in trail.moments if fields]
    assert [one.__traceback__ for one in (*kept, trail.error)] == [None] * 4
    assert (kept[0].field, kept[0].retry_after_s, kept[0].metadata) == ("f", 1.5, {"limit": "x"})


def test_a_refusal_is_kept_once_and_never_of_what_has_ended() -> None:
    kept: list[Trail] = []
    trail = Trail("req_1", caller("acme"), ManualClock(), kept.append)
    first, second = WeirError(Reason.QUEUE_FULL, "a"), WeirError(Reason.INTERNAL, "b")
    trail.refuse(first)
    trail.refuse(second)
    assert trail.error is not None
    assert (trail.error.reason, len(kept)) == (Reason.QUEUE_FULL, 1)
    ended = Trail("req_2", caller("acme"), ManualClock(), kept.append)
    ended.close(LifecycleRecord(), None)
    ended.refuse(second)
    assert ended.error is None
