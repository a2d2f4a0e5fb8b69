"""Where recent use is known, for explanations."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from weir_core.errors import WeirError
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.base import LimitState

_DEADLINE_S = 1.0

_log = get_logger(__name__)


class UsageSource(Protocol):
    """What was settled of late; implemented by the ledger."""

    async def used_last_minute(
        self, subject: Subject, limits: Sequence[Limit]
    ) -> Mapping[str, int]:
        """Units settled over the last 60 seconds, by key of the limit; only of limits that are
        the subject's own and used up, not held.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if it cannot be read.
        """


async def used_last_minute(
    source: UsageSource, subject: Subject, states: Sequence[LimitState]
) -> Mapping[str, int]:
    """Units settled over the last 60 seconds and held now, by key of the limit; nothing where
    that cannot be read within a second."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            settled = await source.used_last_minute(subject, [state.limit for state in states])
    except (WeirError, TimeoutError) as error:
        _log.warning("usage_unknown", tenant_id=subject.tenant_id, cause=str(error))
        return {}
    return {
        state.limit.key: settled[state.limit.key] + state.held
        for state in states
        if state.limit.key in settled
    }
