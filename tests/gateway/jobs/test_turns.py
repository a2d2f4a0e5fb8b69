"""Whose job is next, and what is worth another attempt."""

from collections import Counter
from itertools import pairwise

import pytest

from weir_core.errors import Reason, WeirError
from weir_gateway.jobs.retry import is_fault, is_worth_waiting, wait_ms
from weir_gateway.jobs.tenant_windows import TenantWindows
from weir_gateway.jobs.turns import Turns


def test_a_tenant_with_many_jobs_leaves_room_for_another() -> None:
    turns = Turns(8, TenantWindows(6))
    assert turns.share(["many"], {}) == {"many": 6}
    assert turns.share(["few", "many"], {"many": 6}) == {"few": 2}


def test_places_go_to_who_has_fewest() -> None:
    turns = Turns(10, TenantWindows(10))
    assert turns.share(["a", "b", "c"], {"a": 4}) == {"b": 3, "c": 3}


def test_equals_take_turns_one_place_at_a_time() -> None:
    turns, given = Turns(1, TenantWindows(1)), Counter[str]()
    for _ in range(30):
        given += Counter(turns.share(["a", "b", "c"], {}))
    assert given == {"a": 10, "b": 10, "c": 10}


def test_nobody_gets_more_than_there_is() -> None:
    turns = Turns(4, TenantWindows(4))
    assert turns.share(["a", "b"], {"x": 4}) == {}
    assert turns.share([], {}) == {}


def test_a_refusal_teaches_how_many_fit_and_ends_that_more_may() -> None:
    windows = TenantWindows(32)
    assert windows.of("a") == 32
    windows.refused("a", 10)
    assert (windows.of("a"), windows.of("b")) == (10, 32)
    assert Turns(64, windows).share(["a", "b"], {"a": 9}) == {"a": 1, "b": 32}
    for _ in range(11):
        windows.ended("a")
    assert windows.of("a") == 11
    for _ in range(1_000):
        windows.ended("a")
    assert windows.of("a") == 32
    windows.refused("a", 0)
    assert windows.of("a") == 1


def test_waits_are_what_the_refusal_says_and_double_without() -> None:
    told = WeirError(Reason.TOKEN_LIMIT_EXCEEDED, "later", retry_after_s=20)
    assert 20_000 <= wait_ms(told, 7) <= 24_000
    waits = [wait_ms(WeirError(Reason.NO_WORKER, "none"), tried) for tried in range(1, 14)]
    for before, after in pairwise(waits[:9]):
        assert after > before
    assert max(waits) <= 360_000
    assert min(waits) >= 500


@pytest.mark.parametrize("reason", list(Reason))
def test_no_reason_is_both_a_fault_and_a_matter_of_time(reason: Reason) -> None:
    error = WeirError(reason, "x")
    assert not (is_fault(error) and is_worth_waiting(error))


@pytest.mark.parametrize(
    "reason",
    [
        Reason.INVALID_FIELD,
        Reason.API_KEY_REVOKED,
        Reason.TENANT_SUSPENDED,
        Reason.MODEL_NOT_FOUND,
        Reason.CONTEXT_LENGTH_EXCEEDED,
        Reason.REQUEST_TOO_LARGE,
    ],
)
def test_what_will_never_run_is_not_tried_again(reason: Reason) -> None:
    error = WeirError(reason, "x")
    assert not is_fault(error)
    assert not is_worth_waiting(error)
