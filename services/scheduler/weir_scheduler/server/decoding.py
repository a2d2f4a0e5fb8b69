"""From the wire to the scheduler's own terms."""

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1 import lifecycle_pb2, subject_pb2
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1 import worker_report_pb2 as report_wire
from weir_core.errors import InvalidField, Reason
from weir_core.prefix_hash import HASH_BYTES
from weir_scheduler.dispatch.new_request import NewRequest, Subject, TraceRef
from weir_scheduler.queues.entry import LatencySla, RequestClass
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptProgress,
    AttemptUsage,
    WorkerLoad,
    WorkerReport,
)

_SLAS = {
    subject_pb2.LATENCY_SLA_LOW: LatencySla.LOW,
    subject_pb2.LATENCY_SLA_THROUGHPUT: LatencySla.THROUGHPUT,
}
_MOST_TOKENS = 2**53 - 1
_MOST_ATTEMPTS = 1_000


def new_request(message: wire.Enqueue) -> NewRequest:
    """What a gateway enqueues.

    Raises:
        InvalidField: names the field, the value and the bound.
    """
    _check(message)
    subject = message.subject
    return NewRequest(
        request_id=message.request_id,
        subject=Subject(
            tenant_id=subject.tenant_id,
            user_id=subject.user_id,
            api_key_id=subject.api_key_id,
            model=subject.model,
            model_version=subject.model_version,
            plan_id=subject.plan_id,
        ),
        request_class=_class(getattr(message, "class")),
        priority=message.priority,
        latency_sla=_SLAS.get(message.latency_sla, LatencySla.NORMAL),
        prompt_tokens=message.prompt_tokens,
        max_new_tokens=message.max_new_tokens,
        arrival_wall_us=_moment(message, "arrival_time"),
        deadline_wall_us=_moment(message, "deadline"),
        trace=TraceRef(message.trace.traceparent, message.trace.tracestate),
        session_id=message.session_id,
        prefix_hashes=tuple(message.prefix_hashes),
        attempts=message.attempts,
        excluded=frozenset(message.excluded_workers),
        choices=max(1, message.choices),
        embed=message.embed,
        fallback_versions=tuple(message.fallback_versions),
        preemptions=message.preemptions,
        waiting_since_wall_us=_moment(message, "waiting_since"),
        running_worker_id=message.running_worker_id,
    )


def attempt_key(message: lifecycle_pb2.Attempt) -> AttemptKey:
    """Which attempt is meant."""
    return AttemptKey(message.request_id, message.number)


def usage(message: Usage) -> AttemptUsage:
    """Tokens of an attempt; a count below 0 is 0: nobody may be charged less than nothing."""
    return AttemptUsage(
        max(0, message.prompt_tokens),
        max(0, message.cached_prompt_tokens),
        max(0, message.completion_tokens),
    )


def reason(value: "ErrorReason.ValueType") -> Reason:
    """The reason of that number; INTERNAL for one that is not known."""
    try:
        return Reason(ErrorReason.Name(value).removeprefix("ERROR_REASON_"))
    except ValueError:
        return Reason.INTERNAL


def worker_info(message: report_wire.WorkerRegistration) -> WorkerInfo:
    """What a worker is.

    Raises:
        InvalidField: names the field, the value and the bound.
    """
    for field in ("worker_id", "address", "model"):
        if not getattr(message, field):
            raise InvalidField(f"registration.{field}", "", "set")
    for field in ("total_kv_blocks", "max_context_tokens", "max_concurrent_requests"):
        if getattr(message, field) < 0:
            raise InvalidField(f"registration.{field}", getattr(message, field), "0 or more")
    if message.total_kv_blocks and message.block_size < 1:
        raise InvalidField("registration.block_size", message.block_size, "at least 1")
    return WorkerInfo(
        worker_id=message.worker_id,
        address=message.address,
        model=message.model,
        model_version=message.model_version,
        profile=message.profile,
        max_context_tokens=message.max_context_tokens,
        total_kv_blocks=message.total_kv_blocks,
        block_size=message.block_size or 1,
        max_concurrent_requests=message.max_concurrent_requests,
        static_batching=message.batching == report_wire.BATCHING_STATIC,
        dedicated_tenant_id=message.dedicated_tenant_id,
        gpu_id=message.gpu_id,
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        batch_invariant=message.batch_invariant,
        embeddings=message.embeddings,
        start_us=max(0, message.start_duration.ToMicroseconds()),
    )


def worker_report(message: report_wire.WorkerReport) -> WorkerReport:
    """What a worker reports."""
    return WorkerReport(
        load=_load(message.load),
        running=tuple(_progress(entry) for entry in message.running),
        finished=tuple(_end(entry) for entry in message.finished),
        prefix_blocks_added=tuple(message.prefix_blocks_added),
        prefix_blocks_removed=tuple(message.prefix_blocks_removed),
        draining=message.draining,
    )


def _check(message: wire.Enqueue) -> None:
    for field in ("request_id", "subject.tenant_id", "subject.model"):
        owner = message.subject if "." in field else message
        if not getattr(owner, field.rpartition(".")[2]):
            raise InvalidField(f"enqueue.{field}", "", "set")
    for field in ("prompt_tokens", "max_new_tokens"):
        value = getattr(message, field)
        if not 1 <= value <= _MOST_TOKENS:
            raise InvalidField(f"enqueue.{field}", value, f"from 1 to {_MOST_TOKENS}")
    if not 0 <= message.priority <= 100:
        raise InvalidField("enqueue.priority", message.priority, "from 0 to 100")
    if not 0 <= message.attempts <= _MOST_ATTEMPTS:
        raise InvalidField("enqueue.attempts", message.attempts, f"from 0 to {_MOST_ATTEMPTS}")
    if message.running_worker_id and not message.attempts:
        raise InvalidField("enqueue.attempts", 0, "1 or more of a request that runs")
    if not 0 <= message.preemptions <= message.attempts:
        bound = f"from 0 to enqueue.attempts ({message.attempts})"
        raise InvalidField("enqueue.preemptions", message.preemptions, bound)
    for digest in message.prefix_hashes:
        if len(digest) != HASH_BYTES:
            bound = f"{HASH_BYTES} bytes long"
            raise InvalidField("enqueue.prefix_hashes", f"{len(digest)} bytes", bound)


def _class(value: int) -> RequestClass:
    if value == subject_pb2.REQUEST_CLASS_BATCH:
        return RequestClass.BATCH
    return RequestClass.INTERACTIVE


def _moment(message: wire.Enqueue, field: str) -> int | None:
    if not message.HasField(field):  # type: ignore[arg-type]
        return None
    moment: Timestamp = getattr(message, field)
    try:
        return moment.ToMicroseconds()
    except ValueError:
        value = f"{moment.seconds} s, {moment.nanos} ns"
        raise InvalidField(f"enqueue.{field}", value, "in the years 1 to 9999") from None


def _load(message: report_wire.WorkerLoad) -> WorkerLoad:
    return WorkerLoad(
        free_kv_blocks=message.free_kv_blocks,
        cached_kv_blocks=message.cached_kv_blocks,
        held_kv_blocks=message.held_kv_blocks,
        pinned_kv_blocks=message.pinned_kv_blocks,
        running_requests=message.running_requests,
        waiting_requests=message.waiting_requests,
        pending_prefill_tokens=message.pending_prefill_tokens,
        step_age_us=message.step_age.ToMicroseconds(),
        step_time_us=message.step_time.ToMicroseconds(),
        kv_bytes_used=message.kv_bytes_used,
        device_utilisation_millis=message.device_utilisation_millis,
        device_memory_used_bytes=message.device_memory_used_bytes,
        device_memory_total_bytes=message.device_memory_total_bytes,
        report_time_us=message.report_time.ToMicroseconds(),
        prefix_queries_total=message.prefix_queries_total,
        prefix_hits_total=message.prefix_hits_total,
        preemptions_total=message.preemptions_total,
        told=message.SerializeToString(),
    )


def _progress(message: report_wire.AttemptProgress) -> AttemptProgress:
    cached = max(0, message.cached_prompt_tokens)
    prompt = max(0, message.computed_prompt_tokens) + cached
    used = AttemptUsage(prompt, cached, max(0, message.completion_tokens))
    return AttemptProgress(attempt_key(message.attempt), used, max(0, message.kv_blocks))


def _end(message: report_wire.AttemptEnd) -> AttemptEnd:
    failed = message.finish_reason == FinishReason.FINISH_REASON_ERROR
    return AttemptEnd(attempt_key(message.attempt), usage(message.usage), failed)
