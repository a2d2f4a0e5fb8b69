"""Claims in both databases, on a clock that is set."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from weir_core.clock import ManualClock
from weir_core.database.url import parse_database_url
from weir_core.errors import Reason, WeirError
from weir_gateway.idempotency.claim_store import Claim, ClaimStore
from weir_gateway.idempotency.kept_answer import KeptAnswer
from weir_gateway.idempotency.scoped_key import ScopedKey
from weir_gateway.state.database import StateDatabase

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER = KeptAnswer(200, b"head", b"body" * 50_000)
S = 1_000_000


class Site:
    """Two stores of one database."""

    def __init__(self, state: StateDatabase) -> None:
        self.clock = ManualClock()
        self.one, self.two = (
            ClaimStore(state, self.clock, lease_s=30, keep_s=86_400) for _ in range(2)
        )


@pytest_asyncio.fixture(loop_scope="module")
async def site(url: str) -> AsyncIterator[Site]:
    state = StateDatabase(parse_database_url(url, "state_url", "a test"))
    await state.start()
    yield Site(state)
    await state.close()


def key_of(name: str, fingerprint: bytes = b"f" * 32) -> ScopedKey:
    return ScopedKey("acme", "/v1/x", name, fingerprint, "Idempotency-Key")


async def claimed(store: ClaimStore, key: ScopedKey) -> Claim:
    found = await store.claim(key)
    assert isinstance(found, Claim)
    return found


async def refusal(store: ClaimStore, key: ScopedKey) -> Reason:
    with pytest.raises(WeirError) as caught:
        await store.claim(key)
    return caught.value.reason


async def test_of_many_claims_at_once_one_is_granted(site: Site) -> None:
    key = key_of("many")
    found = await asyncio.gather(
        *(store.claim(key) for store in (site.one, site.two) * 10), return_exceptions=True
    )
    assert sum(isinstance(one, Claim) for one in found) == 1
    others = [one.reason for one in found if isinstance(one, WeirError)]
    assert others == [Reason.IDEMPOTENCY_IN_PROGRESS] * 19


async def test_a_lapsed_lease_is_granted_once_and_its_loser_keeps_nothing(site: Site) -> None:
    key = key_of("lapsed")
    dead = await claimed(site.one, key)
    site.clock.advance_us(29 * S)
    await site.one.renew([dead])
    site.clock.advance_us(29 * S)
    assert await refusal(site.two, key) is Reason.IDEMPOTENCY_IN_PROGRESS
    site.clock.advance_us(1 * S)
    found = await asyncio.gather(
        *(store.claim(key) for store in (site.one, site.two) * 5), return_exceptions=True
    )
    (taken,) = [one for one in found if isinstance(one, Claim)]
    assert not await site.one.keep(dead, ANSWER)
    await site.one.free(dead)
    await site.one.renew([dead])
    assert await refusal(site.one, key) is Reason.IDEMPOTENCY_IN_PROGRESS
    assert await site.two.keep(taken, ANSWER)
    assert await site.one.claim(key) == ANSWER


async def test_an_answer_outlives_its_lease_until_it_expires(site: Site) -> None:
    key = key_of("kept")
    claim = await claimed(site.one, key)
    assert await site.one.keep(claim, ANSWER)
    site.clock.advance_us(86_399 * S)
    assert await site.two.claim(key) == ANSWER
    assert await refusal(site.two, key_of("kept", b"g" * 32)) is Reason.IDEMPOTENCY_CONFLICT
    site.clock.advance_us(1 * S)
    await claimed(site.two, key_of("kept", b"g" * 32))


async def test_what_runs_for_longer_than_answers_are_kept_is_not_free(site: Site, url: str) -> None:
    state = StateDatabase(parse_database_url(url, "state_url", "a test"))
    brief = ClaimStore(state, site.clock, lease_s=30, keep_s=10)
    try:
        key = key_of("long")
        claim = await claimed(brief, key)
        for _ in range(3):
            site.clock.advance_us(20 * S)
            await brief.renew([claim])
            await brief.remove_expired()
            assert await refusal(brief, key) is Reason.IDEMPOTENCY_IN_PROGRESS
        assert await brief.keep(claim, ANSWER)
    finally:
        await state.close()


async def test_what_has_expired_is_removed_in_pieces(site: Site) -> None:
    site.clock.advance_us(200 * 86_400 * S)
    while await site.one.remove_expired():
        pass
    for n in range(501):
        await claimed(site.one, key_of(f"old-{n}"))
    site.clock.advance_us(86_400 * S)
    young = await claimed(site.one, key_of("young"))
    assert await site.two.remove_expired()
    assert not await site.two.remove_expired()
    assert await site.one.keep(young, None)
    assert await refusal(site.one, key_of("young")) is Reason.IDEMPOTENCY_CONFLICT
    await claimed(site.one, key_of("old-0"))
