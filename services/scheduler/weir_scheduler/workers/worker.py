"""A registered worker and what is known of its load."""

from collections.abc import Callable, Iterable
from enum import StrEnum

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.breaker import Breaker
from weir_scheduler.workers.holding import Holding
from weir_scheduler.workers.prefix_index import PrefixIndex
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import AttemptProgress, WorkerLoad, WorkerReport
from weir_scheduler.workers.worker_view import WorkerView

_PREFIX_SLACK = 1_024


class WorkerState(StrEnum):
    """What the scheduler makes of a worker."""

    READY = "ready"
    DRAINING = "draining"
    SUSPECT = "suspect"
    LOST = "lost"


class Worker:
    """Counters of one worker: its last report, plus an increment per dispatched attempt.

    One owner per signal: the report writes `reported`, the dispatcher writes `pending`. An
    increment goes when a report names its attempt, when the attempt ends, or at its arrival
    deadline.
    """

    def __init__(self, info: WorkerInfo, rules: WorkerRules, now_us: int) -> None:
        self.info = info
        self.rules = rules
        self.load = WorkerLoad(free_kv_blocks=info.total_kv_blocks)
        self.breaker = Breaker()
        names_each = -(-info.block_size // PREFIX_GRANULARITY)
        capacity = info.total_kv_blocks * names_each + _PREFIX_SLACK
        self.prefixes = PrefixIndex(capacity, info.worker_id)
        self.pending: dict[AttemptKey, Holding] = {}
        self.reported: dict[AttemptKey, Holding] = {}
        self.last_frame_us = now_us
        self.heard_until_us = 0
        """No loss by silence before this moment, monotonic."""
        self.last_report_wall_us = 0
        self.connected = True
        self.drain_ordered = False
        self.drain_reported = False
        self.drain_wall_us = 0
        """Begin of its drain, Unix microseconds; 0: it does not drain."""
        self.frozen = False
        self.overdue = False
        """An attempt should have been named by now, and no report has come since it was sent."""
        self.last_report_us = now_us
        self.lost = False
        self.lost_why = ""
        self._given_up: set[AttemptKey] = set()
        self._gathering: tuple[int, RequestClass] | None = None
        self._cost = 0
        self._places = 0
        self._long = 0
        self._offline_cost = 0
        self.pool = ""
        """Further pool of its model that it belongs to; empty for the first one."""
        self.owner = info.dedicated_tenant_id
        """The only tenant that it serves; empty for all."""
        self._kv_blocks_due = 0
        self._prefill_left = 0
        self._output_left = 0
        self._recent = 0.0
        self._ended: set[AttemptKey] = set()
        self._view: WorkerView | None = None
        self.on_change: Callable[[Worker], None] = _nobody
        """Told when what placement sees of it may have changed."""

    @property
    def draining(self) -> bool:
        """No new work, by order or by its own word."""
        return self.drain_ordered or self.drain_reported

    @property
    def requests(self) -> int:
        """Attempts on it, dispatched ones included."""
        return len(self.pending) + len(self.reported)

    def state(self, now_us: int) -> WorkerState:
        """What the scheduler makes of it."""
        if self.lost:
            return WorkerState.LOST
        if self.draining:
            return WorkerState.DRAINING
        if not self.connected or self.frozen or self.overdue:
            return WorkerState.SUSPECT
        if not self.breaker.allows(now_us):
            return WorkerState.SUSPECT
        return WorkerState.READY

    def live(self, now_us: int) -> bool:
        """Whether it takes work now, or will once its breaker lets it."""
        if self.lost or self.draining or not self.connected or self.frozen or self.overdue:
            return False
        return self.breaker.open_until_us is None or now_us >= self.breaker.open_until_us

    def dispatched(
        self,
        key: AttemptKey,
        holding: Holding,
        request_class: RequestClass,
        now_us: int,
        weight: float = 1.0,
    ) -> None:
        """Adds the increment of an attempt that is on its way.

        `weight`: of the work of this moment, see `RecentWork`.
        """
        self._recent += weight * (holding.prefill_left + holding.output_left)
        if self.info.static_batching and not self.requests:
            self._gathering = (now_us, request_class)
        self.pending[key] = holding
        self._add(holding, 1)
        self.breaker.dispatched(key)

    def holding(self, key: AttemptKey) -> Holding | None:
        """What an attempt takes up here; None when nothing."""
        return self.pending.get(key) or self.reported.get(key)

    def released(self, key: AttemptKey) -> None:
        """The attempt is gone, or its arrival deadline has passed. Idempotent."""
        for holdings in (self.pending, self.reported):
            holding = holdings.pop(key, None)
            if holding is not None:
                self._add(holding, -1)

    def ended(self, key: AttemptKey) -> None:
        """The gateway has its terminal record: a report that still names it is older."""
        self._ended.add(key)
        self.released(key)

    def reported_by(self, report: WorkerReport) -> None:
        """Takes the counters of a report: the whole set of attempts, named ones lose theirs."""
        self.load = report.load
        self.drain_reported = report.draining
        named = {progress.key for progress in report.running}
        self._ended &= named
        self.reported = self._holdings(
            progress for progress in report.running if progress.key not in self._ended
        )
        self._recount()
        for end in report.finished:
            self.released(end.key)
        self._given_up.intersection_update(self.reported)
        self.prefixes.add(report.prefix_blocks_added)
        self.prefixes.remove(report.prefix_blocks_removed)

    def connect(self, info: WorkerInfo, rules: WorkerRules, now_us: int) -> None:
        """It has registered, for the first time or again."""
        self.info, self.rules = info, rules
        self.connected, self.lost, self.frozen = True, False, False
        self.overdue, self.last_report_us = False, now_us
        self._ended.clear()
        self._changed()
        self.drain_reported = False
        # What was removed while it was away, was not told; it tells everything again.
        self.prefixes.clear()
        self.last_frame_us = now_us

    def assume_running(self, keys: Iterable[AttemptKey]) -> None:
        """What it said that it runs when it registered; the next report corrects it."""
        for key in keys:
            holding = self.pending.pop(key, None)
            self.reported.setdefault(key, holding or Holding(0, 0))
        self._recount()

    def described(self, key: AttemptKey, holding: Holding) -> None:
        """What an attempt takes up that another scheduler dispatched; what it uses is known."""
        known = self.reported.get(key)
        if known is None or known.prompt_tokens:
            return
        holding.kv_blocks_held = known.kv_blocks_held
        self.reported[key] = holding
        self._recount()

    def mark_lost(self, attempts: Iterable[AttemptKey], why: str) -> None:
        """Whatever ran there is given up, and does not count any more."""
        self.lost, self.lost_why = True, why
        self._given_up.update(attempts)
        self.pending.clear()
        self.reported.clear()
        self.load = WorkerLoad()
        self._recount()

    def gave_up(self, key: AttemptKey) -> bool:
        """Whether the attempt was given up as lost with this worker: to be aborted on return."""
        return key in self._given_up

    def set_rules(self, rules: WorkerRules) -> None:
        """Its bounds have changed."""
        self.rules = rules
        self._changed()

    def forget_recent_work(self) -> None:
        """Sums of all workers begin anew."""
        self._recent = 0.0
        self._changed()

    def view(self, now_us: int) -> WorkerView:
        """A snapshot for placement; the same object while nothing has changed."""
        takes_work = self.state(now_us) is WorkerState.READY
        gathering = self._gathering
        static_batch = gathering[1] if gathering and gathering[0] == now_us else None
        known = self._view
        if known is None or (known.takes_work, known.static_batch) != (takes_work, static_batch):
            known = self._view = self._new_view(takes_work, static_batch)
        return known

    def _new_view(self, takes_work: bool, static_batch: RequestClass | None) -> WorkerView:
        load = self.load
        # Cached and pinned blocks yield to requests.
        free = load.free_kv_blocks + load.cached_kv_blocks + load.pinned_kv_blocks
        return WorkerView(
            info=self.info,
            rules=self.rules,
            takes_work=takes_work,
            requests=self.requests,
            places=self._places,
            cost=self._cost,
            free_kv_blocks=free - self._kv_blocks_due,
            static_batch=static_batch,
            prefixes=self.prefixes,
            long_requests=self._long,
            offline_cost=self._offline_cost,
            prefill_left=self._prefill_left,
            output_left=self._output_left,
            recent=self._recent,
        )

    def _add(self, holding: Holding, sign: int) -> None:
        self._cost += sign * holding.cost
        self._places += sign * holding.places
        self._long += sign * holding.long
        self._offline_cost += sign * holding.cost * holding.offline
        self._kv_blocks_due += sign * holding.kv_blocks_due
        self._prefill_left += sign * holding.prefill_left
        self._output_left += sign * holding.output_left
        self._changed()

    def _recount(self) -> None:
        holdings = [*self.pending.values(), *self.reported.values()]
        self._cost = sum(holding.cost for holding in holdings)
        self._places = sum(holding.places for holding in holdings)
        self._long = sum(holding.long for holding in holdings)
        self._offline_cost = sum(holding.cost for holding in holdings if holding.offline)
        self._kv_blocks_due = sum(holding.kv_blocks_due for holding in holdings)
        self._prefill_left = sum(holding.prefill_left for holding in holdings)
        self._output_left = sum(holding.output_left for holding in holdings)
        self._changed()

    def _changed(self) -> None:
        """What is known of its load has changed."""
        self._view = None
        self.on_change(self)

    def _holdings(self, running: Iterable[AttemptProgress]) -> dict[AttemptKey, Holding]:
        holdings = {}
        for progress in running:
            known = self.pending.pop(progress.key, None) or self.reported.get(progress.key)
            usage = progress.usage
            holding = holdings[progress.key] = known or _estimated(progress)
            holding.progressed(usage.prompt_tokens, usage.completion_tokens, progress.kv_blocks)
        return holdings


def _estimated(progress: AttemptProgress) -> Holding:
    """For an attempt dispatched by an earlier scheduler: what it has used so far."""
    usage = progress.usage
    return Holding(usage.prompt_tokens + usage.completion_tokens, progress.kv_blocks)


def _nobody(worker: Worker) -> None:
    """Nobody keeps an index of it."""
