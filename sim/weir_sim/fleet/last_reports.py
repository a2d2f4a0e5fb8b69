"""Placement that sees the last reports alone: an experiment, not the product's way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.placement import Placement
from weir_scheduler.placement.placer import Placer
from weir_scheduler.queues.entry import QueueEntry, estimated_cost
from weir_scheduler.workers.worker_report import WorkerReport
from weir_scheduler.workers.worker_view import WorkerView
from weir_sim.core.journal import Journal


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """What a worker's last report said of its load, in the terms of `WorkerView`."""

    requests: int = 0
    cost: int = 0
    prefill_left: int = 0
    output_left: int = 0
    free_kv_blocks: int = 0


class LastReports:
    """Keeps each worker's last report.

    Args:
        journal: knows what the requests asked for.
        alpha_millis: weight of max_new_tokens in the estimated cost, thousandths.
    """

    def __init__(self, journal: Journal, alpha_millis: int) -> None:
        self._journal = journal
        self._alpha_millis = alpha_millis
        self._loads: dict[str, ReportedLoad] = {}

    def reported(self, worker_id: str, report: WorkerReport) -> None:
        """A report has come."""
        cost = prefill_left = output_left = 0
        for progress in report.running:
            request, usage = self._journal.lives[progress.key.request_id].request, progress.usage
            cost += estimated_cost(
                request.prompt_tokens, request.most_new_tokens, self._alpha_millis
            )
            prefill_left += request.prompt_tokens - usage.prompt_tokens
            expected = self._alpha_millis * request.most_new_tokens // 1_000
            output_left += max(0, expected - usage.completion_tokens)
        free = report.load.free_kv_blocks + report.load.cached_kv_blocks
        self._loads[worker_id] = ReportedLoad(
            len(report.running), cost, prefill_left, output_left, free
        )

    def seen(self, view: WorkerView) -> WorkerView:
        """A view without what the scheduler knows by itself."""
        load = self._loads.get(view.info.worker_id, ReportedLoad(free_kv_blocks=1 << 40))
        return replace(
            view,
            requests=load.requests,
            places=load.requests,
            cost=load.cost,
            free_kv_blocks=load.free_kv_blocks,
            prefill_left=load.prefill_left,
            output_left=load.output_left,
            recent=0.0,
        )


class LastReportPlacer(Placer):
    """Places by views of the last reports.

    Args:
        inner: the policy.
        reports: what it sees.
    """

    def __init__(self, inner: Placer, reports: LastReports) -> None:
        super().__init__()
        self._inner = inner
        self._reports = reports

    def place(
        self,
        entry: QueueEntry,
        views: Sequence[WorkerView],
        context: PlacementContext | None = None,
    ) -> Placement:
        """See `Placer.place`."""
        return self._inner.place(entry, [self._reports.seen(view) for view in views], context)
