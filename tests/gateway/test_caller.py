from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.support import caller_of, document_of, published
from weir_core.clock import ManualClock
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.request_guard import RequestGuard
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.keys import generate_key

KEY = generate_key("dev")
OTHER = generate_key("dev")


def authenticator(clock: ManualClock | None = None, **changes: Any) -> Authenticator:
    clock = clock or ManualClock()
    return Authenticator(published(document_of(KEY, **changes), clock), clock)


def refusal(header: str | None, **changes: Any) -> WeirError:
    with pytest.raises(WeirError) as caught:
        authenticator(**changes).authenticate(header)
    return caught.value


def test_a_key_gives_tenant_user_and_plan() -> None:
    caller = authenticator().authenticate(f"Bearer {KEY.secret}")
    assert (caller.tenant_id, caller.user_id, caller.key_id) == ("acme", "alice", KEY.id)
    assert (caller.plan_id, caller.policy.max_priority) == ("team", 7)
    assert caller.may_use("tiny")
    assert caller.may_use("other")


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_is_read_leniently(scheme: str) -> None:
    assert authenticator().authenticate(f"{scheme} {KEY.secret} ").key_id == KEY.id


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, Reason.API_KEY_MISSING),
        ("", Reason.API_KEY_MISSING),
        ("Bearer ", Reason.API_KEY_MISSING),
        ("Basic abc", Reason.API_KEY_INVALID),
        (KEY.secret, Reason.API_KEY_INVALID),
        ("Bearer sk-something", Reason.API_KEY_INVALID),
        (f"Bearer {KEY.secret[:-1]}", Reason.API_KEY_INVALID),
        (f"Bearer {KEY.secret}x", Reason.API_KEY_INVALID),
        (f"Bearer {OTHER.secret}", Reason.API_KEY_INVALID),
        ("Bearer " + "x" * 100_000, Reason.API_KEY_INVALID),
        ("Bearer \ud800", Reason.API_KEY_INVALID),
    ],
    # Keys differ from process to process, and tests are found by their names.
    ids=range(11),
)
def test_bad_keys_are_refused_without_being_quoted(header: str | None, reason: Reason) -> None:
    error = refusal(header)
    assert error.reason is reason
    assert error.wire.http == 401
    sent = (header or "").split(" ", 1)[-1].strip()
    for part in (sent, sent[-6:], KEY.id, KEY.hash.hex(), "acme"):
        assert not part or part not in error.message


def test_revoked_expired_and_suspended() -> None:
    good = f"Bearer {KEY.secret}"
    assert refusal(good, key_revoked=True).reason is Reason.API_KEY_REVOKED
    assert refusal(good, key_expires="2020-01-01T00:00:00Z").reason is Reason.API_KEY_EXPIRED
    suspended = refusal(good, suspended=True)
    assert suspended.reason is Reason.TENANT_SUSPENDED
    assert suspended.wire.http == 403


def test_revocation_and_new_limits_hold_from_the_next_call_on() -> None:
    clock = ManualClock()
    publisher = published(document_of(KEY), clock)
    checked = Authenticator(publisher, clock)
    caller = checked.authenticate(f"Bearer {KEY.secret}")
    published(document_of(KEY, policy={"max_priority": 3}), clock, publisher)
    assert checked.authenticate(f"Bearer {KEY.secret}").policy.max_priority == 3
    published(document_of(KEY, key_revoked=True), clock, publisher)
    with pytest.raises(WeirError, match="revoked"):
        checked.authenticate(f"Bearer {KEY.secret}")
    with pytest.raises(WeirError, match="revoked"):
        checked.check_standing(caller)


def test_a_rotated_key_has_two_secrets_while_they_overlap() -> None:
    document = document_of(KEY)
    entry = document["tenants"][0]["keys"][0]
    del entry["hash"]
    entry["hashes"] = [KEY.hash.hex(), OTHER.hash.hex()]
    clock = ManualClock()
    checked = Authenticator(published(document, clock), clock)
    for secret in (KEY.secret, OTHER.secret):
        assert checked.authenticate(f"Bearer {secret}").key_id == KEY.id


def test_a_key_may_be_for_some_models_alone() -> None:
    caller = authenticator(key_allowed_models=["tiny"]).authenticate(f"Bearer {KEY.secret}")
    assert caller.may_use("tiny")
    assert not caller.may_use("other")
    caller = authenticator(
        policy={"allowed_models": ["other"]}, key_allowed_models=["tiny", "other"]
    ).authenticate(f"Bearer {KEY.secret}")
    assert not caller.may_use("tiny")
    assert caller.may_use("other")


def test_before_the_directory_came_nobody_is_refused_as_unknown() -> None:
    clock = ManualClock()
    with pytest.raises(WeirError) as caught:
        Authenticator(DirectoryPublisher(clock), clock).authenticate(f"Bearer {KEY.secret}")
    assert caught.value.reason is Reason.DIRECTORY_UNAVAILABLE


@pytest.fixture
def guarded() -> tuple[RequestGuard, DirectoryPublisher, ManualClock]:
    clock = ManualClock()
    publisher = published(document_of(KEY), clock)
    return RequestGuard(publisher, clock), publisher, clock


Guarded = tuple[RequestGuard, DirectoryPublisher, ManualClock]


def test_the_rate_of_the_tenant_is_kept(guarded: Guarded) -> None:
    guard, publisher, clock = guarded
    caller = caller_of(publisher, KEY.id)
    guard.admit(caller).keep()
    guard.admit(caller).keep()
    with pytest.raises(LimitExceeded) as caught:
        guard.admit(caller).keep()
    (violation,) = caught.value.violations
    assert violation.limit_id == "tenant:acme/rps"
    assert (violation.limit, violation.used, violation.requested) == (2, 2, 1)
    assert (violation.limit_type, violation.resource) == ("rps", "requests_per_second")
    assert violation.knob == "limit `rps` of plan team"
    assert caught.value.retry_after_s == 0.5
    assert violation.reset_time_ms == clock.now_us() // 1000 + 500
    clock.advance_us(500_000)
    guard.admit(caller).keep()


def test_what_is_refused_later_gives_its_request_back_once(guarded: Guarded) -> None:
    guard, publisher, _ = guarded
    caller = caller_of(publisher, KEY.id)
    first, second = guard.admit(caller), guard.admit(caller)
    first.give_back()
    first.give_back()
    second.keep()
    second.keep()
    second.give_back()
    second.give_back()
    guard.admit(caller).keep()
    guard.admit(caller).keep()
    with pytest.raises(LimitExceeded):
        guard.admit(caller)


def test_what_is_not_decided_refuses_nobody(guarded: Guarded) -> None:
    guard, publisher, _ = guarded
    caller = caller_of(publisher, KEY.id)
    tickets = [guard.admit(caller) for _ in range(7)]
    for refused in tickets[2:]:
        refused.give_back()
    guard.admit(caller).give_back()
    for admitted in tickets[:2]:
        admitted.keep()
    with pytest.raises(LimitExceeded):
        guard.admit(caller)


def test_a_flood_that_is_not_decided_is_bounded(guarded: Guarded) -> None:
    guard, publisher, _ = guarded
    caller = caller_of(publisher, KEY.id)
    tickets = [guard.admit(caller) for _ in range(2 + 32)]
    with pytest.raises(LimitExceeded) as caught:
        guard.admit(caller)
    assert caught.value.retry_after_s
    for ticket in tickets:
        ticket.give_back()
    guard.admit(caller)


def test_all_buckets_are_debited_or_none() -> None:
    clock = ManualClock()
    document = document_of(KEY, key_limits=[{"resource": "requests", "rate": "1/min"}])
    publisher = published(document, clock)
    guard = RequestGuard(publisher, clock)
    caller = caller_of(publisher, KEY.id)
    guard.admit(caller).keep()
    for _ in range(5):
        with pytest.raises(LimitExceeded) as caught:
            guard.admit(caller).keep()
        assert [v.limit_id for v in caught.value.violations] == [f"api_key:{KEY.id}/rpm"]
    published(document_of(KEY), clock, publisher)
    guard.admit(caller).keep()


def test_a_raised_limit_takes_effect_at_once(guarded: Guarded) -> None:
    guard, publisher, clock = guarded
    caller = caller_of(publisher, KEY.id)
    guard.admit(caller).keep()
    guard.admit(caller).keep()
    raised = document_of(KEY, limits=[{"resource": "requests", "rate": "5/s"}])
    published(raised, clock, publisher)
    for _ in range(3):
        guard.admit(caller).keep()
    with pytest.raises(LimitExceeded):
        guard.admit(caller).keep()


def test_the_same_user_id_of_two_tenants_is_two_users() -> None:
    clock = ManualClock()
    document = document_of(KEY, limits=[{"resource": "requests", "rate": "100/s"}])
    limited = {"id": "alice", "limits": [{"resource": "requests", "rate": "1/min"}]}
    document["tenants"][0]["users"] = [limited]
    other = {
        "id": "globex",
        "plan": "team",
        "users": [limited],
        "keys": [{"id": "k2", "user": "alice", "hash": OTHER.hash.hex()}],
    }
    document["tenants"].append(other)
    publisher = published(document, clock)
    guard = RequestGuard(publisher, clock)
    guard.admit(caller_of(publisher, KEY.id)).keep()
    guard.admit(caller_of(publisher, "k2", "globex")).keep()
    with pytest.raises(LimitExceeded):
        guard.admit(caller_of(publisher, KEY.id)).keep()


PUBLISHED = published(document_of(KEY), ManualClock())


@given(gaps=st.lists(st.integers(0, 700), min_size=1, max_size=60))
def test_the_guard_admits_no_more_than_burst_and_rate(gaps: list[int]) -> None:
    clock = ManualClock()
    guard = RequestGuard(PUBLISHED, clock)
    caller = caller_of(PUBLISHED, KEY.id)
    admitted, elapsed_ms = 0, 0
    for gap_ms in gaps:
        clock.advance_us(gap_ms * 1000)
        elapsed_ms += gap_ms
        try:
            guard.admit(caller).keep()
        except LimitExceeded:
            continue
        admitted += 1
    assert admitted <= 2 + 2 * elapsed_ms / 1000
