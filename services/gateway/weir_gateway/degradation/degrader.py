"""Changes requests that would be refused, as far as their tenant's policy allows.

In the order in which it hurts least: the model's fallback, a shorter answer, fewer answers; for
a conversation that is too long its oldest turns. Each form is reserved anew, so that limits
decide about what would run, and charge it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.subject_pb2 import RequestClass
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.degradation.change import Changed, on_fallbacks
from weir_gateway.degradation.context import TOO_LONG, cuts, fitting_bound
from weir_gateway.degradation.limits import another_model_helps, lower_bounds
from weir_gateway.degradation.metrics import DegradationMetrics
from weir_gateway.degradation.race import QueueRace
from weir_gateway.degradation.rules import Rules, may_degrade
from weir_gateway.directory.follower import Directory
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.ending import cancelled
from weir_gateway.flow.front_desk import FrontDesk
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.intake.preparer import Preparer

_Tried = Admission | LimitExceeded


@dataclass(frozen=True, slots=True)
class Arrival:
    """How one request came.

    Attributes:
        caller: who asks.
        take_ticket: counts one more request of a caller; raises WeirError.
        ends_at: of `time.monotonic`, seconds.
        trail: of the request as it was asked for.
    """

    caller: Caller
    take_ticket: Callable[[Caller], GuardTicket]
    ends_at: float
    trail: Trail


class Degrader:
    """See the module.

    Args:
        directory, preparer, desk, metrics: see there.
    """

    def __init__(
        self,
        directory: Directory,
        preparer: Preparer,
        desk: FrontDesk,
        metrics: DegradationMetrics,
    ) -> None:
        self._directory = directory
        self._preparer = preparer
        self._desk = desk
        self._metrics = metrics

    async def prepare(
        self, caller: Caller, request: GenerationRequest, trail: Trail
    ) -> tuple[GenerationRequest, PreparedRequest]:
        """A request ready for `Reserve`, and as what; changed if it is too long as it is.

        Raises:
            WeirError: as `Preparer.prepare`.
        """
        try:
            return request, await self._preparer.prepare(caller, request)
        except WeirError as error:
            if error.reason not in TOO_LONG or not may_degrade(caller.policy):
                raise
            found = await self._fitting(caller, Changed(request), error)
            if found is None:
                raise
            trail.note(Moment.DEGRADED, degradations=found[1].degradations, error=error)
            return found

    async def admit(
        self,
        arrival: Arrival,
        request: GenerationRequest,
        prepared: PreparedRequest,
        ticket: GuardTicket,
    ) -> Admission:
        """Reserves a request, or a smaller one in its place, and waits for a worker if need be.

        Raises:
            WeirError: as `FrontDesk.admit`, about the request as it was asked for.
        """
        rules = Rules.of(arrival.caller.policy)
        asked = Changed(request, prepared.degradations)
        try:
            admission = await self._reserve(arrival, prepared, ticket, arrival.trail)
        except LimitExceeded as error:
            arrival.trail.note(Moment.REFUSED, error=error)
            with_less = await self._with_less(arrival, rules, asked, prepared, error)
            if with_less is None:
                raise
            # Its client is told of the form that runs, by an id of its own.
            arrival.trail.gone = True
            admission = with_less
        if rules.smaller_model and not _can_wait(admission):
            admission = await self._placed(arrival, rules, asked, admission)
        self._metrics.degraded(admission.live.prepared.degradations)
        return admission

    # Too long

    async def _fitting(
        self, caller: Caller, asked: Changed, refused: WeirError
    ) -> tuple[GenerationRequest, PreparedRequest] | None:
        rules = Rules.of(caller.policy)
        if rules.smaller_model:
            for changed in on_fallbacks(self._directory.required, caller, asked):
                if (found := await self._prepared(caller, changed)) is not None:
                    return found
        if rules.lower_max_new_tokens:
            bound = fitting_bound(asked, refused, rules.floor)
            if bound is not None:
                found = await self._prepared(caller, asked.with_max_new_tokens(bound))
                if found is not None:
                    return found
        return await self._truncated(caller, asked) if rules.truncates else None

    async def _truncated(
        self, caller: Caller, asked: Changed
    ) -> tuple[GenerationRequest, PreparedRequest] | None:
        """With as few of its oldest turns left out as need be."""
        chat = asked.request.chat
        head = 0 if chat is None else chat.head_length
        places, best = cuts(asked), None
        low, high = 0, len(places) - 1
        while low <= high:
            at = (low + high) // 2
            end = places[at]
            found = await self._prepared(caller, asked.without_turns(end - head, end))
            if found is None:
                low = at + 1
            else:
                best, high = found, at - 1
        return best

    async def _prepared(
        self, caller: Caller, changed: Changed
    ) -> tuple[GenerationRequest, PreparedRequest] | None:
        try:
            prepared = await self._preparer.prepare(caller, changed.request)
        except WeirError:
            return None
        return changed.request, replace(prepared, degradations=changed.told)

    # Over a limit

    async def _with_less(
        self,
        arrival: Arrival,
        rules: Rules,
        asked: Changed,
        prepared: PreparedRequest,
        refused: LimitExceeded,
    ) -> Admission | None:
        index = self._directory.required
        if rules.smaller_model and another_model_helps(index, prepared, refused):
            for changed in on_fallbacks(index, arrival.caller, asked):
                if isinstance(tried := await self._try(arrival, changed, refused), Admission):
                    return tried
        if rules.lower_max_new_tokens:
            found = await self._lowered(arrival, rules, asked, prepared, refused)
            if found is not None:
                return found
        if rules.cheaper_sampling and prepared.choices > 1:
            changed = asked.with_one_answer()
            tried = await self._try(arrival, changed, refused)
            if isinstance(tried, Admission):
                return tried
            if tried is not None and rules.lower_max_new_tokens:
                one = replace(prepared, choices=1)
                return await self._lowered(arrival, rules, changed, one, tried)
        return None

    async def _lowered(
        self,
        arrival: Arrival,
        rules: Rules,
        asked: Changed,
        prepared: PreparedRequest,
        refused: LimitExceeded,
    ) -> Admission | None:
        model = self._directory.required.model(prepared.subject.model)
        if model is None:
            return None
        for bound in lower_bounds(prepared, refused, model.price, rules.floor):
            changed = asked.with_max_new_tokens(bound)
            tried = await self._try(arrival, changed, refused)
            if isinstance(tried, Admission):
                return tried
        return None

    async def _try(
        self, arrival: Arrival, changed: Changed, refused: WeirError | None
    ) -> _Tried | None:
        """Reserves another form, since the request was `refused` or waits; None if it cannot."""
        found = await self._prepared(arrival.caller, changed)
        if found is None:
            return None
        trail = arrival.trail.form(self._desk.new_id(), changed.told, refused)
        try:
            ticket = arrival.take_ticket(arrival.caller)
            return await self._reserve(arrival, found[1], ticket, trail)
        except WeirError as error:
            trail.gone = True
            arrival.trail.note(Moment.DEGRADED, degradations=changed.told, error=error)
            return error if isinstance(error, LimitExceeded) else None

    async def _reserve(
        self, arrival: Arrival, prepared: PreparedRequest, ticket: GuardTicket, trail: Trail
    ) -> Admission:
        left_s = max(0.0, arrival.ends_at - time.monotonic())
        return await self._desk.admit(prepared, ticket, trail=trail, deadline_s=left_s)

    # In the queue

    async def _placed(
        self, arrival: Arrival, rules: Rules, asked: Changed, first: Admission
    ) -> Admission:
        """The form that gets a worker first; the first one when none does."""
        others = list(on_fallbacks(self._directory.required, arrival.caller, asked))
        mine = first.live.prepared.subject.model
        others = [other for other in others if other.request.model != mine]
        if not others:
            return first
        race = QueueRace(first)
        try:
            while race.winner is None:
                waiting = race.waiting
                if not others and waiting in ([], [first]):
                    return first
                if not waiting and not _is_shed(first):
                    return first
                late = not waiting or not await race.news(rules.max_wait_s if others else None)
                if race.winner is None and others and late:
                    tried = await self._try(arrival, others.pop(0), None)
                    if isinstance(tried, Admission):
                        race.enter(tried)
        except BaseException:
            race.stop(cancelled())
            raise
        finally:
            race.leave()
        return race.winner


def _can_wait(admission: Admission) -> bool:
    """Whether nobody waits for it: it is of the class batch."""
    batch = RequestClass.REQUEST_CLASS_BATCH
    return admission.live.prepared.request_class == batch


def _is_shed(admission: Admission) -> bool:
    """Whether the queue refused it."""
    ending = admission.live.ended.result()
    reason = None if ending.error is None else ending.error.reason
    return ending.outcome == Outcome.OUTCOME_SHED and reason is not Reason.CANCELLED
