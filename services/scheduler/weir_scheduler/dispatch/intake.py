"""Takes requests in, or refuses them at once."""

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.admission import Admission
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.rejections import shutting_down, too_large
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.placement.fit import never_fits
from weir_scheduler.queues.entry import QueueEntry, RequestClass, estimated_cost
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.rules.pool_scope import PromptLength
from weir_scheduler.rules.routing import prompt_length
from weir_scheduler.rules.rules import RequestRules


class Intake:
    """Checks what can be checked on arrival, and enqueues."""

    def __init__(self, state: SchedulerState, waiting: WaitingRoom) -> None:
        self._state = state
        self._waiting = waiting
        self._admission = Admission(state, waiting)
        self._sequence = 0

    def enqueue(self, gateway: str, request: NewRequest) -> None:
        """Enqueues a request; a repeated Enqueue of the same gateway changes nothing.

        Raises:
            WeirError: QUEUE_FULL, OVERLOADED, NO_WORKER, REQUEST_TOO_LARGE, MODEL_NOT_FOUND,
                DEADLINE_EXCEEDED, DRAINING, or RESERVATION_CONFLICT when another gateway uses
                the id.
            InvalidField: no pool takes such a request.
        """
        if self.known(gateway, request.request_id) is not None:
            return
        if self._state.closed:
            raise shutting_down()
        record = self.record(gateway, request)
        lane = self._waiting.lane_for(record.entry)
        # What waited already at another scheduler was let in there.
        if not request.attempts and request.waiting_since_wall_us is None:
            self._admission.check(record, lane)
        if not self._state.holding:
            self._check_fits(record.entry, lane)
        self._waiting.enter(record)
        self._state.requests.add(record)

    def known(self, gateway: str, request_id: str) -> RequestRecord | None:
        """The request of that id. Raises WeirError(RESERVATION_CONFLICT) if it is another's."""
        known = self._state.requests.get(request_id)
        if known is not None and known.gateway != gateway:
            raise WeirError(
                Reason.RESERVATION_CONFLICT, f"request id {request_id} is in use by another gateway"
            )
        return known

    def record(self, gateway: str, request: NewRequest) -> RequestRecord:
        """A request as it is kept, not entered anywhere yet. Raises WeirError."""
        self._state.rules.pool(request.subject.model)
        rules = self._state.rules.request(request.subject.model, request.subject.tenant_id)
        entry = self._entry(request, rules)
        return RequestRecord(
            entry=entry,
            subject=request.subject,
            gateway=gateway,
            trace=request.trace,
            preemptions=request.preemptions,
            lane_key=LaneKey(entry.model, entry.model_version, ""),
        )

    def _entry(self, request: NewRequest, rules: RequestRules) -> QueueEntry:
        now_us, wall_us = self._state.now_us(), self._state.clock.now_us()
        bounds = self._state.bounds
        batch = request.request_class is RequestClass.BATCH
        lifetime = bounds.default_deadline_batch_us if batch else bounds.default_deadline_us
        deadline_us = now_us + lifetime
        if request.deadline_wall_us is not None:
            deadline_us = now_us + request.deadline_wall_us - wall_us
        if deadline_us <= now_us:
            raise WeirError(Reason.DEADLINE_EXCEEDED, "the deadline passed before the queue")
        arrival_wall_us = wall_us if request.arrival_wall_us is None else request.arrival_wall_us
        since_wall_us = request.waiting_since_wall_us
        waited_us = 0 if since_wall_us is None else max(0, wall_us - since_wall_us)
        cost = estimated_cost(request.prompt_tokens, request.max_new_tokens, rules.alpha_millis)
        subject = request.subject
        self._sequence += 1
        return QueueEntry(
            request_id=request.request_id,
            sequence=self._sequence,
            tenant_id=subject.tenant_id,
            model=subject.model,
            model_version=subject.model_version,
            request_class=request.request_class,
            priority=request.priority,
            latency_sla=request.latency_sla,
            prompt_tokens=request.prompt_tokens,
            max_new_tokens=request.max_new_tokens,
            estimated_cost=cost,
            predicted_output=self._predicted_output(request),
            # A gateway whose clock is ahead gains nothing by it.
            arrival_us=now_us - max(0, wall_us - arrival_wall_us),
            enqueued_us=now_us - waited_us,
            deadline_us=deadline_us,
            session_id=request.session_id,
            prefix_hashes=request.prefix_hashes,
            attempts=max(request.attempts, self._state.attempts.highest_of(request.request_id)),
            excluded=request.excluded,
            choices=request.choices,
            cached_tokens=self._state.fleet.prefixes(subject.model).cached_tokens(
                request.prefix_hashes, request.prompt_tokens
            ),
            fallback_versions=request.fallback_versions,
            embed=request.embed,
            long=prompt_length(request.prompt_tokens, rules.long_context_threshold)
            is PromptLength.LONG,
        )

    def _predicted_output(self, request: NewRequest) -> int:
        """Of all its answers together, tokens."""
        if request.embed:
            return 0
        subject, most = request.subject, request.max_new_tokens // request.choices
        predictor = self._state.predictor
        return request.choices * predictor.predict(
            subject.tenant_id, subject.model, most, default=most
        )

    def _check_fits(self, entry: QueueEntry, lane: Lane) -> None:
        workers = self._state.fleet.serving(lane.key)
        if entry.embed and workers and not any(worker.info.embeddings for worker in workers):
            raise WeirError(
                Reason.EMBEDDINGS_NOT_OFFERED,
                f"no worker of {entry.model} makes embeddings; choose a model whose workers do",
                field="model",
            )
        refusal: str | None = None
        for worker in workers:
            refusal = never_fits(entry, worker.info, worker.rules)
            if refusal is None:
                return
        if refusal is not None:
            raise too_large(refusal)
