"""What explanations say of the last minute, and that they do without it."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from tests.ratelimiter.account import ACME
from tests.ratelimiter.builders import bucket, lease
from weir_core.errors import Reason, WeirError
from weir_ratelimiter import usage_source
from weir_ratelimiter.domain.limit import Limit, Resource
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.base import LimitState
from weir_ratelimiter.usage_source import used_last_minute

TPM, RPM = bucket("tpm", Resource.TOKENS, 100), bucket("rpm", Resource.REQUESTS, 9)
STATES = [
    LimitState(TPM, 60, 40, 0),
    LimitState(RPM, 9, 0, 0),
    LimitState(lease("parallel", 4), 3, 1, 0),
]


class Source:
    """Knows of tokens alone, or fails as a test wants it to."""

    def __init__(self, *, fails: bool = False, hangs: bool = False) -> None:
        self._fails = fails
        self._hangs = hangs

    async def used_last_minute(
        self, subject: Subject, limits: Sequence[Limit]
    ) -> Mapping[str, int]:
        assert subject == ACME
        assert len(limits) == len(STATES)
        if self._fails:
            raise WeirError(Reason.LIMITER_UNAVAILABLE, "the ledger is away")
        if self._hangs:
            await asyncio.Event().wait()
        return {"tpm": 25}


async def test_what_is_settled_and_what_is_held_count() -> None:
    assert await used_last_minute(Source(), ACME, STATES) == {"tpm": 65}


async def test_a_ledger_that_fails_or_hangs_is_done_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await used_last_minute(Source(fails=True), ACME, STATES) == {}
    monkeypatch.setattr(usage_source, "_DEADLINE_S", 0.01)
    assert await used_last_minute(Source(hangs=True), ACME, STATES) == {}
