"""Carries out pre-emption by policy: asks, waits for the place, and gives it to who asked."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.preemption import Occupant, OvertakeCredit, choose_victim
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.placement.fit import blocked_by
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import Isolation
from weir_scheduler.workers.attempt_key import AttemptKey

_FOR_ROOM = frozenset({WaitReason.WORKER_FULL, WaitReason.BATCH_FULL, WaitReason.KV_FULL})


@dataclass(frozen=True, slots=True)
class Claim:
    """The one place that a lane waits for.

    Attributes:
        request_id: who waits for it.
        victim: whose place it is.
        worker_id: where.
        deadline_us: end of the wait, monotonic.
        overtakes: request whose turn it was instead; empty when it was the claimant's own.
    """

    request_id: str
    victim: AttemptKey
    worker_id: str
    deadline_us: int
    overtakes: str


@dataclass(slots=True)
class PreemptionCounts:
    """Since the process began.

    Attributes:
        asked: attempts asked to give up their place.
        given: of these, given up.
        overtakings: dispatches that went to the place of a victim, or before another's turn.
    """

    asked: int = 0
    given: int = 0
    overtakings: int = 0


class Preempter:
    """At most one claim a lane, one victim a claim, no cascade.

    Whether something was streamed only the gateway knows: the victim's gateway is asked, and
    gives the place back or goes on. Until the claim ends, its lane dispatches nobody else,
    and no other lane the claimed worker, so the freed place is for whom it was taken.
    """

    def __init__(self, state: SchedulerState) -> None:
        self.counts = PreemptionCounts()
        self._state = state
        self._claims: dict[LaneKey, Claim] = {}
        self._credits: dict[LaneKey, OvertakeCredit] = {}

    def claimant(self, lane: Lane) -> QueueEntry | None:
        """Who is first for the next place of a lane; None while nothing is claimed."""
        claim = self._claims.get(lane.key)
        if claim is None:
            return None
        record = self._state.requests.get(claim.request_id)
        victim = self._state.attempts.get(claim.victim)
        goes_on = victim is not None and victim.started
        over = goes_on or self._state.now_us() >= claim.deadline_us
        if record is None or over or not self._may_run(lane, record):
            self._end_claim(lane.key)
            if goes_on:
                self._credit(lane.key).give_back()
            return None
        return record.entry

    def keeps_for(self, lane: Lane, request_id: str) -> bool:
        """Whether a place is taken back for a request: it takes the first one, whichever."""
        claim = self._claims.get(lane.key)
        return claim is not None and claim.request_id == request_id

    def claimed_elsewhere(self, lane: Lane) -> set[str]:
        """Workers of which other lanes wait for a place."""
        return {claim.worker_id for key, claim in self._claims.items() if key != lane.key}

    def consider(self, lane: Lane, head: QueueEntry, reason: WaitReason) -> WaitReason:
        """The head of a lane finds no room: looks for a place to take back.

        Returns:
            Why the head waits now.
        """
        rules = lane.pool.preemption
        if rules is None or reason not in _FOR_ROOM:
            return reason
        if lane.key in self._claims:
            return WaitReason.PREEMPTING
        now_us = self._state.now_us()
        urgent = lane.head(now_us, RequestClass.INTERACTIVE) or head
        if not self._may_claim(lane, urgent, head, rules):
            return reason
        victim = choose_victim(
            urgent,
            self._occupants(lane.key),
            rules,
            across_tenants=lane.pool.isolation is Isolation.SHARED,
            frees=lambda occupant: self._frees(urgent, occupant, now_us),
        )
        if victim is None:
            return reason
        self._ask(lane, urgent, head, victim, now_us + rules.place_wait_us)
        return WaitReason.PREEMPTING if urgent is head else reason

    def dispatched(self, lane: Lane, request_id: str) -> None:
        """Counts a dispatch, and ends the claim that it fulfils."""
        if lane.pool.preemption is None:
            return
        self._credit(lane.key).dispatched(lane.pool.preemption.max_overtake_ratio_millis)
        claim = self._claims.get(lane.key)
        if claim is None or claim.request_id != request_id:
            return
        self.counts.overtakings += 1
        passed = self._state.requests.get(claim.overtakes)
        if passed is not None and passed.waits:
            passed.overtaken += 1
        self._end_claim(lane.key)

    def given(self, record: RequestRecord, attempt: Attempt) -> None:
        """The gateway has given an attempt's place back; it is about to be queued again."""
        attempt.preempted = True
        record.preemptions += 1
        record.overtaken += 1
        self.counts.given += 1

    def forget(self) -> None:
        """Every claim and credit is of a term that is over."""
        self._claims.clear()
        self._credits.clear()

    def _may_run(self, lane: Lane, record: RequestRecord) -> bool:
        """It waits still, and its tenant has not come to its cap meanwhile."""
        waits = record.phase is Phase.WAITING and record.lane_key == lane.key
        return waits and not lane.is_blocked(record.entry.tenant_id)

    def _may_claim(
        self, lane: Lane, urgent: QueueEntry, head: QueueEntry, rules: PreemptionRules
    ) -> bool:
        record = self._state.requests.get(urgent.request_id)
        passed = self._state.requests.get(head.request_id)
        if record is None or passed is None or record.preemptions:
            return False
        if urgent.request_id != head.request_id and passed.overtaken >= rules.max_overtakings:
            return False
        return self._credit(lane.key).available

    def _occupants(self, key: LaneKey) -> Iterator[Occupant]:
        for order, attempt in enumerate(self._state.attempts.unstarted(key)):
            record = self._state.requests.get(attempt.key.request_id)
            current = record is not None and record.attempt is attempt
            if record is None or not current or attempt.aborting or attempt.asked:
                continue
            yield Occupant(
                key=attempt.key,
                worker_id=attempt.worker_id,
                tenant_id=attempt.tenant_id,
                request_class=attempt.request_class,
                priority=record.entry.priority,
                order=order,
                preemptions=record.preemptions,
                overtaken=record.overtaken,
            )

    def _frees(self, entry: QueueEntry, occupant: Occupant, now_us: int) -> bool:
        worker = self._state.fleet.get(occupant.worker_id)
        if worker is None or occupant.worker_id in entry.excluded:
            return False
        view, holding = worker.view(now_us), worker.holding(occupant.key)
        if holding is None or not view.takes_work:
            return False
        without = replace(
            view,
            requests=view.requests - 1,
            places=view.places - holding.places,
            cost=view.cost - holding.cost,
            free_kv_blocks=view.free_kv_blocks + holding.kv_blocks_held + holding.kv_blocks_due,
        )
        return blocked_by(entry, without) is None

    def _ask(
        self,
        lane: Lane,
        urgent: QueueEntry,
        head: QueueEntry,
        victim: Occupant,
        deadline_us: int,
    ) -> None:
        attempt = self._state.attempts.get(victim.key)
        record = self._state.requests.get(victim.key.request_id)
        assert attempt is not None, "an occupant has a place"
        assert record is not None, "and a request"
        attempt.asked = True
        self.counts.asked += 1
        self._credit(lane.key).spend()
        overtakes = head.request_id if head.request_id != urgent.request_id else ""
        self._claims[lane.key] = Claim(
            urgent.request_id, victim.key, victim.worker_id, deadline_us, overtakes
        )
        self._state.timers.set(TimerKind.CLAIM_ENDS, lane.key, deadline_us)
        self._state.to_pump[lane.key] = None
        cause = WeirError(
            Reason.PREEMPTED,
            f"a more urgent request needs the place of attempt {victim.key.number} on worker "
            f"{victim.worker_id}",
        )
        self._state.outbox.preempt(record.gateway, victim.key, cause)

    def _end_claim(self, key: LaneKey) -> None:
        """Other lanes may have the worker again."""
        del self._claims[key]
        self._state.timers.cancel(TimerKind.CLAIM_ENDS, key)
        self._state.wake_model(key.model)

    def _credit(self, key: LaneKey) -> OvertakeCredit:
        credit = self._credits.get(key)
        if credit is None:
            credit = self._credits[key] = OvertakeCredit()
        return credit
