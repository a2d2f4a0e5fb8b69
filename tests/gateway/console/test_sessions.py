"""Sessions: how they begin and end, and how often an address may fail."""

import pytest

from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.login_throttle import LoginThrottle
from weir_gateway.console.pace import Pace
from weir_gateway.console.session_store import SessionStore

ADMIN = Identity(Role.ADMIN, Method.SECRET, "admin")
TENANT = Identity(Role.TENANT, Method.KEY, "acme/alice", "acme", "alice", "key1")
MINUTE = 60_000_000


class Site:
    """A store whose identities a test can turn away."""

    def __init__(self, *, idle_s: float = 600, most_s: float = 3_600, most: int = 100) -> None:
        self.clock = ManualClock()
        self.gone: WeirError | None = None
        self.store = SessionStore(self.clock, self._check, idle_s=idle_s, most_s=most_s, most=most)

    def _check(self, who: Identity) -> None:
        if self.gone is not None and who.method is Method.KEY:
            raise self.gone

    def lives(self, cookie: str) -> bool:
        try:
            self.store.find(cookie)
        except WeirError as error:
            return error.reason is not Reason.API_KEY_MISSING
        return True


def test_a_session_is_found_by_its_cookie_alone() -> None:
    site = Site()
    cookie, session = site.store.open(TENANT)
    assert site.store.find(cookie) is session
    for other in ("", "x", cookie[:-1], session.name, session.csrf):
        assert not site.lives(other)
    assert cookie not in repr(session)


def test_it_ends_after_its_idle_time_and_calls_put_that_off() -> None:
    site = Site()
    cookie, _ = site.store.open(ADMIN)
    for _ in range(3):
        site.clock.advance_us(9 * MINUTE)
        assert site.lives(cookie)
    site.clock.advance_us(10 * MINUTE)
    assert not site.lives(cookie)
    assert len(site.store) == 0


def test_it_ends_in_any_case_and_streams_do_not_put_that_off() -> None:
    site = Site()
    cookie, session = site.store.open(ADMIN)
    assert session.expire_ms == (site.clock.now_us() + 60 * MINUTE) // 1_000
    for _ in range(6):
        site.clock.advance_us(9 * MINUTE)
        assert site.lives(cookie)
    site.clock.advance_us(6 * MINUTE)
    assert not site.lives(cookie)
    cookie, session = site.store.open(ADMIN)
    site.clock.advance_us(9 * MINUTE)
    site.store.check(session)
    site.clock.advance_us(MINUTE)
    with pytest.raises(WeirError, match="by time"):
        site.store.check(session)


def test_it_dies_with_the_standing_of_who_it_is_of() -> None:
    site = Site()
    cookie, session = site.store.open(TENANT)
    admin, _ = site.store.open(ADMIN)
    site.gone = WeirError(Reason.API_KEY_REVOKED, "the API key was revoked")
    with pytest.raises(WeirError, match="the API key was revoked"):
        site.store.check(session)
    site.gone = None
    assert not site.lives(cookie)
    assert site.lives(admin)


def test_a_directory_that_is_away_ends_nothing_for_good() -> None:
    site = Site()
    cookie, _ = site.store.open(TENANT)
    site.gone = WeirError(Reason.DIRECTORY_UNAVAILABLE, "no directory")
    assert not site.lives(cookie)
    site.gone = None
    assert site.lives(cookie)


def test_one_identity_ends_its_own_oldest_and_signs_nobody_else_out() -> None:
    site = Site(most=60)
    admin, _ = site.store.open(ADMIN)
    cookies = [site.store.open(TENANT)[0] for _ in range(80)]
    assert len(site.store) == 51
    assert not site.lives(cookies[29])
    assert site.lives(cookies[30])
    assert site.lives(admin)


def test_of_too_many_the_new_one_is_refused() -> None:
    site = Site(most=2)
    for name in ("a", "b"):
        site.store.open(Identity(Role.TENANT, Method.KEY, name, name))
    third = Identity(Role.TENANT, Method.KEY, "c", "c")
    with pytest.raises(WeirError, match=r"2 sessions are open.*console\.max_sessions"):
        site.store.open(third)
    site.clock.advance_us(10 * MINUTE)
    site.store.open(third)


def test_a_tenant_with_many_keys_keeps_nobody_out() -> None:
    site = Site(most=60)
    quiet, _ = site.store.open(Identity(Role.TENANT, Method.KEY, "b/u", "b", "u", "k"))
    keys = [Identity(Role.TENANT, Method.KEY, "a/u", "a", "u", f"k{n}") for n in range(200)]
    many = [site.store.open(key)[0] for key in keys]
    assert len(site.store) == 60
    admin, _ = site.store.open(ADMIN)
    other, _ = site.store.open(Identity(Role.TENANT, Method.KEY, "c/u", "c", "u", "k"))
    assert site.lives(quiet)
    assert site.lives(admin)
    assert site.lives(other)
    assert site.lives(many[-1])
    assert len(site.store) == 60


def test_administrators_always_find_room_and_end_none_of_their_own() -> None:
    site = Site(most=3)
    for name in ("a", "b", "c"):
        site.store.open(Identity(Role.TENANT, Method.KEY, name, name))
    admins = [site.store.open(Identity(Role.ADMIN, Method.OIDC, str(n)))[0] for n in range(3)]
    assert all(map(site.lives, admins))
    with pytest.raises(WeirError, match="3 sessions are open"):
        site.store.open(ADMIN)


def test_an_address_that_fails_often_waits_and_others_do_not() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock, 3)
    for _ in range(3):
        throttle.check("10.0.0.1")
        throttle.failed("10.0.0.1")
    with pytest.raises(WeirError) as told:
        throttle.check("10.0.0.1")
    assert told.value.reason is Reason.RATE_LIMIT_EXCEEDED
    assert told.value.retry_after_s == 60
    throttle.check("10.0.0.2")
    clock.advance_us(MINUTE)
    throttle.check("10.0.0.1")


def test_so_many_addresses_are_remembered_and_no_more() -> None:
    throttle = LoginThrottle(ManualClock(), 1)
    for number in range(10_001):
        throttle.failed(str(number))
    throttle.check("0")
    with pytest.raises(WeirError):
        throttle.check("10000")


def test_a_tenant_asks_at_a_pace_and_others_and_administrators_at_theirs() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    for _ in range(100):
        pace.take("acme")
    with pytest.raises(WeirError, match="20 calls a second"):
        pace.take("acme")
    pace.take("globex")
    for _ in range(1_000):
        pace.take("")
    clock.advance_us(1_000_000)
    for _ in range(20):
        pace.take("acme")
    with pytest.raises(WeirError):
        pace.take("acme")
