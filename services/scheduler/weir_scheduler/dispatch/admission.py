"""Refuses at once what would wait in vain, with a Retry-After that holds."""

from collections.abc import Callable, Hashable

from weir_core.errors import WeirError
from weir_scheduler.dispatch.promises import SHORTEST_S
from weir_scheduler.dispatch.rejections import (
    overloaded,
    pool_gone,
    shared_queue_full,
    tenant_queue_full,
)
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.shedding import calm_saturation, sheds
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.group import group_of
from weir_scheduler.queues.lane import Lane
from weir_scheduler.rules.pool_scope import WhenGone
from weir_scheduler.rules.rules import Isolation

_SECOND_US = 1_000_000
_UNKNOWN_EACH_S = 1.0
_MARGIN = 0.75
"""Places are promised below the bound by this, for what the prediction does not know."""

_LOW_WATER = 0.5
"""Below this part of a bound everybody is let in, whatever was promised to others."""


class Admission:
    """Queue limits of tenant, model and service, and the predicted wait."""

    def __init__(self, state: SchedulerState, waiting: WaitingRoom) -> None:
        self._state = state
        self._waiting = waiting

    def check(self, record: RequestRecord, lane: Lane) -> None:
        """Lets a new request in, or raises WeirError: QUEUE_FULL, OVERLOADED or NO_WORKER."""
        self._check_pool(record.entry, lane)
        self._check_counts(record, lane)
        if record.entry.request_class is RequestClass.INTERACTIVE:
            self._check_wait(record, lane)

    def _check_pool(self, entry: QueueEntry, lane: Lane) -> None:
        """A tenant's own pool whose workers have been gone for long takes nothing."""
        since_us = lane.no_worker_since_us
        if since_us is None or not lane.pool.scope.tenant_id:
            return
        gone_us = self._state.now_us() - since_us
        if lane.pool.when_gone is WhenGone.REFUSE and gone_us > self._waiting.no_worker_us(entry):
            raise pool_gone(entry, lane.pool.name, gone_us)

    def _check_counts(self, record: RequestRecord, lane: Lane) -> None:
        bounds, waiting, rules = self._state.bounds, self._waiting, self._state.rules
        tenant_id, model = record.entry.tenant_id, record.entry.model
        own = rules.tenant(tenant_id).max_queued_requests or bounds.max_queued_per_tenant
        of_tenant = waiting.of_tenant(tenant_id)
        self._check_count(
            ("tenant", tenant_id), of_tenant, own, record, lane,
            lambda retry_s: tenant_queue_full(tenant_id, own, of_tenant, retry_s),
        )  # fmt: skip
        self._check_count(
            ("model", model), waiting.of_model(model),
            rules.request(model, tenant_id).max_queued_requests, record, lane,
            lambda retry_s: shared_queue_full("model", retry_s),
        )  # fmt: skip
        self._check_count(
            ("service",), len(waiting), bounds.max_queued_requests, record, lane,
            lambda retry_s: shared_queue_full("service", retry_s),
        )  # fmt: skip

    def _check_count(
        self,
        key: tuple[str, ...],
        waiting: int,
        limit: int,
        record: RequestRecord,
        lane: Lane,
        refusal: Callable[[float], WeirError],
    ) -> None:
        now_us = self._state.now_us()
        told = self._state.promises.outstanding(key, now_us)
        open_to_all = waiting + told < limit or waiting < _LOW_WATER * limit
        if self._let_in(key, record, open_to_all=open_to_all, room=waiting < limit):
            return
        known = lane.forecast(record.entry, now_us)
        each_s = _UNKNOWN_EACH_S
        if known is not None:
            each_s = known.each_s if key[0] == "tenant" else known.any_s
        wait_s = max(1, waiting + told - int(_MARGIN * limit)) * each_s
        raise refusal(_promise(self._state, key, record, wait_s, each_s))

    def _check_wait(self, record: RequestRecord, lane: Lane) -> None:
        entry, now_us = record.entry, self._state.now_us()
        plain = lane.forecast(entry, now_us)
        if plain is None:
            return
        limit_s, knob = _longest_wait_s(self._state, entry)
        key, shedding = _wait_key(entry, lane), lane.pool.shedding
        calm_s = calm_saturation(shedding, entry.priority) * limit_s
        told = self._state.promises.outstanding(key, now_us)
        counted = lane.forecast(entry, now_us, extra=told) or plain
        saturation = counted.wait_s / limit_s
        open_to_all = plain.wait_s < _LOW_WATER * calm_s or not sheds(
            shedding, saturation, entry.priority, entry.request_id
        )
        if self._let_in(key, record, open_to_all=open_to_all, room=plain.wait_s < limit_s):
            return
        wait_s = counted.wait_s - _MARGIN * calm_s
        retry_s = _promise(self._state, key, record, wait_s, plain.each_s)
        raise overloaded(entry, counted.wait_s, limit_s, calm_s, knob, retry_s)

    def _let_in(
        self, key: Hashable, record: RequestRecord, *, open_to_all: bool, room: bool
    ) -> bool:
        """Whether a request may pass a limit.

        Args:
            key: of the limit.
            record: the request.
            open_to_all: there is room beside what is promised to others.
            room: there is room for whom it was promised to.
        """
        now_us, promises = self._state.now_us(), self._state.promises
        told = promises.find(key, _print(record), now_us)
        if told is None:
            return open_to_all
        passes = open_to_all or (room and told.is_due(now_us))
        if passes or told.is_due(now_us):
            promises.settle(key, told, now_us, kept=passes)
        return passes


def retry_after_timeout(state: SchedulerState, record: RequestRecord, waited_us: int) -> float:
    """Seconds after which a request that waited in vain finds a place."""
    entry, now_us = record.entry, state.now_us()
    lane = state.lanes[record.lane_key]
    key = _wait_key(entry, lane)
    known = lane.forecast(entry, now_us, extra=state.promises.outstanding(key, now_us))
    if known is None:
        return max(SHORTEST_S, waited_us / _SECOND_US)
    limit_s, _ = _longest_wait_s(state, entry)
    calm_s = calm_saturation(lane.pool.shedding, entry.priority) * limit_s
    wait_s = known.wait_s - _MARGIN * calm_s
    return state.promises.book(key, _print(record), now_us, wait_s, known.each_s)


def _promise(
    state: SchedulerState, key: Hashable, record: RequestRecord, wait_s: float, each_s: float
) -> float:
    """Seconds until the place that a request has been told of, or is told of now."""
    now_us, print_ = state.now_us(), _print(record)
    told = state.promises.find(key, print_, now_us)
    if told is not None:
        return max(SHORTEST_S, (told.due_us - now_us) / _SECOND_US)
    return state.promises.book(key, print_, now_us, wait_s, each_s)


def _print(record: RequestRecord) -> Hashable:
    """What a request looks like when it is sent again: the same caller, the same prompt."""
    subject, entry = record.subject, record.entry
    prompt = entry.prompt_tokens, entry.max_new_tokens, entry.prefix_hashes[-1:]
    return subject.tenant_id, subject.user_id, subject.api_key_id, prompt


def _longest_wait_s(state: SchedulerState, entry: QueueEntry) -> tuple[float, str]:
    """The longest that a request may wait, seconds, and the knob that says so."""
    timeout_us = state.rules.request(entry.model, entry.tenant_id).queue_timeout_us
    slo = state.rules.tenant(entry.tenant_id).slo
    if slo.shed and 0 < slo.ttft_us < timeout_us:
        return slo.ttft_us / _SECOND_US, "slo.ttft_ms"
    return timeout_us / _SECOND_US, "queue_timeout_ms"


def _wait_key(entry: QueueEntry, lane: Lane) -> Hashable:
    """Whose turns a place in the queue is a matter of, and how urgent."""
    shared = lane.pool.isolation is Isolation.SHARED
    tenant_id = "" if shared else entry.tenant_id
    return "wait", lane.key, group_of(entry), tenant_id, entry.priority
