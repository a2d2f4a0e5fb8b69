"""Whether the interactive requests of tenants with targets keep them."""

from collections.abc import Callable, Iterator

from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.rules.slo_targets import SloTargets
from weir_scheduler.slo.objective import Objective, SloStatus, WindowStatus, target_us
from weir_scheduler.slo.sliding_counts import SlidingCounts

WINDOWS_US = (300_000_000, 3_600_000_000)
"""Five minutes and one hour."""

_MOST = 10_000

Judged = Callable[[str, Objective, bool], None]


class SloBook:
    """Counts by tenant and objective; tenants without targets cost nothing.

    Times run from the first arrival at a gateway, over every attempt, to the moment at which the
    gateway's word of it arrives here. What is refused because there was no room in time has
    missed every target: otherwise refusing would be the way to keep them.

    Bounded: the tenants that were idle longest are forgotten beyond 10,000 targets.

    Args:
        targets_of: the targets of a tenant, at this moment.

    Attributes:
        on_judged: told of every request that is counted: tenant, objective, whether kept.
    """

    def __init__(self, targets_of: Callable[[str], SloTargets]) -> None:
        self._targets_of = targets_of
        self._counts: dict[tuple[str, Objective], tuple[SlidingCounts, ...]] = {}
        self.on_judged: Judged = _nobody

    def first_token(self, entry: QueueEntry, now_us: int) -> None:
        """The first token of a request has come."""
        if entry.request_class is RequestClass.INTERACTIVE:
            self._judge(entry.tenant_id, Objective.TTFT, now_us - entry.arrival_us, now_us)

    def finished(
        self, entry: QueueEntry, first_token_us: int | None, completion_tokens: int, now_us: int
    ) -> None:
        """A request has ended; of one that was not streamed no first token is known.

        Without any token there was no answer, and nothing to measure.
        """
        if entry.request_class is not RequestClass.INTERACTIVE:
            return
        if first_token_us is None and not completion_tokens:
            return
        if first_token_us is not None and completion_tokens > 1:
            gap_us = (now_us - first_token_us) // (completion_tokens - 1)
            self._judge(entry.tenant_id, Objective.ITL, gap_us, now_us)
        self._judge(entry.tenant_id, Objective.E2E, now_us - entry.arrival_us, now_us)

    def missed(
        self, tenant_id: str, request_class: RequestClass, now_us: int, *, streamed: bool = False
    ) -> None:
        """A request was refused for want of room, or was lost with its worker.

        `streamed`: its first token had been counted.
        """
        if request_class is not RequestClass.INTERACTIVE:
            return
        targets = self._targets_of(tenant_id)
        for objective in (Objective.E2E,) if streamed else (Objective.TTFT, Objective.E2E):
            if target_us(targets, objective):
                self._count(tenant_id, objective, now_us, good=False)

    def status(self, now_us: int, tenant_id: str = "") -> Iterator[SloStatus]:
        """Every target that is set and was counted for; of one tenant, or of all."""
        for (tenant, objective), counts in self._counts.items():
            targets = self._targets_of(tenant)
            target = target_us(targets, objective)
            if not target or tenant_id not in ("", tenant):
                continue
            allowed = 1.0 - targets.attainment_millis / 1000
            windows = tuple(
                WindowStatus(count.window_us, *count.read(now_us), allowed) for count in counts
            )
            yield SloStatus(tenant, objective, target, targets.attainment_millis, windows)

    def _judge(self, tenant_id: str, objective: Objective, took_us: int, now_us: int) -> None:
        target = target_us(self._targets_of(tenant_id), objective)
        if target:
            self._count(tenant_id, objective, now_us, good=took_us <= target)

    def _count(self, tenant_id: str, objective: Objective, now_us: int, *, good: bool) -> None:
        self.on_judged(tenant_id, objective, good)
        key = tenant_id, objective
        counts = self._counts.pop(key, None) or tuple(map(SlidingCounts, WINDOWS_US))
        self._counts[key] = counts
        for count in counts:
            count.add(now_us, good=good)
        if len(self._counts) > _MOST:
            del self._counts[next(iter(self._counts))]


def _nobody(tenant_id: str, objective: Objective, good: bool) -> None:
    """Listens to nothing."""
