"""Accounts and ledger of tenants, read together."""

import asyncio
from collections.abc import Sequence
from typing import Any

from weir.common.v1.subject_pb2 import Subject
from weir.ratelimiter.v1.ledger_service_pb2 import GetLedgerStatusResponse, RowFilter, UsageSum
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainRequest,
    ExplainResponse,
    LimitStatus,
)
from weir_core.directory import DirectoryIndex
from weir_core.errors.refusal import rfc3339
from weir_gateway.console.calendar_span import day_of, month_of, window_filter
from weir_gateway.console.forms.moments import moment
from weir_gateway.console.forms.usage_json import added
from weir_gateway.console.reconciliation import (
    Check,
    State,
    check_parts,
    check_window,
    sentence,
    state_of,
)
from weir_gateway.console.sources import Sources

_MOST_WINDOWS = 20


class AccountBook:
    """Reads it.

    Args:
        sources: see there.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def explain(self, subject: Subject) -> ExplainResponse:
        """Where the limits of somebody stand. Raises WeirError."""
        return await self._sources.accounts.explain(ExplainRequest(subject=subject))

    def today(self, tenant_id: str = "") -> RowFilter:
        """What was reserved since midnight, UTC."""
        return window_filter(tenant_id, day_of(self._sources.clock.now_us()))

    def month(self, tenant_id: str) -> RowFilter:
        """Likewise in this month."""
        return window_filter(tenant_id, month_of(self._sources.clock.now_us()))

    async def total(self, where: RowFilter) -> UsageSum:
        """One sum. Raises WeirError."""
        return added(await self._sources.ledger.sums(where))

    async def by_group(self, where: RowFilter, group: str) -> dict[str, UsageSum]:
        """Sums by `tenant`, `user`, `api_key` or `model`. Raises WeirError."""
        name = "model" if group == "model" else f"{group}_id"
        sums = await self._sources.ledger.sums(where, [group])
        return {str(getattr(one, name)): one for one in sums}

    async def reconcile(self, tenant_id: str, *, for_admin: bool) -> dict[str, Any]:
        """The account beside the ledger, as JSON. Raises WeirError."""
        before = await self.explain(Subject(tenant_id=tenant_id))
        index = self._sources.directory.required
        windows = [one for one in before.limits if one.window and not one.shadow][:_MOST_WINDOWS]
        filters = [_filter_of(index, tenant_id, one) for one in windows]
        sums, parts = await asyncio.gather(
            asyncio.gather(*(self.total(where) for where in filters)), self._parts(tenant_id)
        )
        after = {
            one.limit_id: one for one in (await self.explain(Subject(tenant_id=tenant_id))).limits
        }
        pairs = zip(windows, sums, strict=True)
        found = [
            check_window(one, after[one.limit_id], charged)
            for one, charged in pairs
            if one.limit_id in after
        ]
        checks = [*(check for check in found if check is not None), *parts]
        status = await self._sources.ledger.status()
        return self._told(checks, status, for_admin=for_admin)

    async def _parts(self, tenant_id: str) -> Sequence[Check]:
        """Whether the sums of today's keys and models come to the total.

        A request that ends between two reads makes the later one larger: the total is read
        twice, and is right if the parts lie between.
        """
        where = self.today(tenant_id)
        first = await self.total(where)
        parts = added(await self._sources.ledger.sums(where, ["api_key", "model"]))
        last = await self.total(where)
        between = first.usage.total_tokens <= parts.usage.total_tokens <= last.usage.total_tokens
        whole = parts if between else last
        day = day_of(self._sources.clock.now_us())
        return [check_parts("sum of keys and models", day, whole, parts)]

    def _told(
        self, checks: Sequence[Check], status: GetLedgerStatusResponse, *, for_admin: bool
    ) -> dict[str, Any]:
        state = state_of(checks, status)
        waits = status.outbox_events and state is not State.UNKNOWN
        known = for_admin and not status.outbox_error
        return {
            "state": state.value,
            "text": sentence(state, checks, status),
            "checked_time": rfc3339(self._sources.clock.now_ms()),
            # These are of everybody.
            "lag_s": (status.outbox_age_ms / 1_000 if waits else 0.0) if known else None,
            "waiting_events": status.outbox_events if known else None,
            "last_write_time": moment(status, "last_write_time") if for_admin else None,
            "last_error": (status.last_error or None) if for_admin else None,
            "checks": [_check_json(check) for check in checks],
        }


def _filter_of(index: DirectoryIndex, tenant_id: str, limit: LimitStatus) -> RowFilter:
    scoped = next((one for one in index.tenant_limits(tenant_id) if one.id == limit.limit_id), None)
    time_zone, model = ("", "") if scoped is None else (scoped.limit.time_zone, scoped.limit.model)
    return window_filter(tenant_id, limit.window, time_zone, model)


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "what": check.what,
        "window": check.window,
        "unit": check.unit,
        "account": check.account,
        "held": check.held,
        "ledger": check.ledger,
        "difference": check.difference,
        "state": check.state.value,
    }
