"""What a placement decision knows beside the request and the workers."""

from dataclasses import dataclass

from weir_scheduler.rules.placement_rules import PlacementRules

_MILLIS = 1_000
_DEFAULTS = PlacementRules()


@dataclass(frozen=True, slots=True)
class PlacementContext:
    """One moment of one lane.

    Attributes:
        now_us: monotonic.
        session_worker: worker of the session's last turn; None for none.
        mean_recent: mean of `WorkerView.recent` over the lane's workers that take work.
        work_weight: what one token of work weighs now, in the units of `recent`.
        rules: parameters of the pool.
        may_wait: for the full worker of its session, while others have room.
    """

    now_us: int = 0
    session_worker: str | None = None
    mean_recent: float = 0.0
    work_weight: float = 1.0
    rules: PlacementRules = _DEFAULTS
    may_wait: bool = True

    @property
    def affinity_bound(self) -> float:
        """Most recent work of a worker on which a cached prefix still counts."""
        excess = self.rules.affinity_excess_millis / _MILLIS
        slack = self.rules.affinity_slack_tokens * self.work_weight
        return (1.0 + excess) * self.mean_recent + slack
