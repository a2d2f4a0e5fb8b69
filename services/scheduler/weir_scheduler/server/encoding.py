"""From the scheduler's own terms to the wire."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1 import lifecycle_pb2, subject_pb2
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1 import worker_report_pb2 as report_wire
from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.new_request import Subject
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.leadership.term import Term
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.state_reason import state_reason
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import WorkerLoad

_CLASSES = {
    RequestClass.INTERACTIVE: subject_pb2.REQUEST_CLASS_INTERACTIVE,
    RequestClass.BATCH: subject_pb2.REQUEST_CLASS_BATCH,
}


def attempt(key: AttemptKey) -> lifecycle_pb2.Attempt:
    """Names an attempt."""
    return lifecycle_pb2.Attempt(request_id=key.request_id, number=key.number)


def reason(value: Reason) -> "ErrorReason.ValueType":
    """The number of a reason."""
    return ErrorReason.Value(f"ERROR_REASON_{value}")


def wait_reason(value: WaitReason) -> "wire.QueueReason.ValueType":
    """The number of a reason to wait."""
    return wire.QueueReason.Value(f"QUEUE_REASON_{value.name}")


def grant(dispatch: Dispatch, epoch: int) -> lifecycle_pb2.Grant:
    """Permission to run the attempt, to be signed; `epoch` of the granting scheduler."""
    message = lifecycle_pb2.Grant(
        attempt=attempt(dispatch.key),
        worker_id=dispatch.worker.worker_id,
        tenant_id=dispatch.tenant_id,
        model=dispatch.worker.model,
        priority=dispatch.priority,
        max_new_tokens=dispatch.max_new_tokens,
        expire_time=_timestamp(dispatch.expire_wall_us),
        leader_epoch=epoch,
    )
    setattr(message, "class", _CLASSES[dispatch.request_class])
    return message


def dispatched(dispatch: Dispatch, signed: lifecycle_pb2.SignedGrant) -> wire.SchedulerEvent:
    """The request has a worker."""
    return wire.SchedulerEvent(
        dispatched=wire.Dispatched(
            attempt=attempt(dispatch.key),
            worker_id=dispatch.worker.worker_id,
            worker_address=dispatch.worker.address,
            grant=signed,
            queue_time=_duration(dispatch.queue_us),
            max_new_tokens=dispatch.max_new_tokens,
            model_version=dispatch.worker.model_version,
        )
    )


def rejected(request_id: str, cause: WeirError) -> wire.SchedulerEvent:
    """The request will not run."""
    message = wire.Rejected(
        request_id=request_id,
        error_reason=reason(cause.reason),
        message=cause.message,
        metadata=cause.metadata,
    )
    if cause.retry_after_s is not None:
        message.retry_after.CopyFrom(_duration(round(cause.retry_after_s * 1e6)))
    return wire.SchedulerEvent(rejected=message)


def parameters(rules: WorkerRules) -> report_wire.WorkerParameters:
    """Bounds of a worker."""
    return report_wire.WorkerParameters(
        max_batch_size=rules.max_batch_size,
        max_batch_tokens=rules.max_batch_tokens,
        max_step_tokens=rules.max_step_tokens,
        max_concurrent_requests=rules.max_concurrent_requests,
    )


def registered(
    rules: WorkerRules, report_interval_us: int, loss_us: int, term: Term
) -> report_wire.WorkerRegistered:
    """Answer to a registration."""
    return report_wire.WorkerRegistered(
        report_interval=_duration(report_interval_us),
        loss_after=_duration(loss_us),
        parameters=parameters(rules),
        leader_epoch=term.epoch,
        lease=_duration(term.lease_us) if term.lease_us else None,
    )


def heartbeat(term: Term) -> wire.DispatchResponse:
    """A frame to a gateway without events; the first one names the term."""
    return wire.DispatchResponse(
        leader_epoch=term.epoch, lease=_duration(term.lease_us) if term.lease_us else None
    )


def queued_request(
    record: RequestRecord, position: int, why: WaitReason, *, now_us: int, wall_us: int
) -> wire.QueuedRequest:
    """One waiting request; `now_us` and `wall_us` are the same moment on both clocks."""
    entry, to_wall = record.entry, wall_us - now_us
    return wire.QueuedRequest(
        request_id=entry.request_id,
        subject=_subject(record.subject),
        position=position,
        reason=wait_reason(why),
        arrival_time=_timestamp(entry.arrival_us + to_wall),
        enqueue_time=_timestamp(entry.enqueued_us + to_wall),
        estimated_cost=entry.estimated_cost,
        priority=entry.priority,
    )


def worker_view(worker: Worker, pool: str, now_us: int) -> wire.WorkerView:
    """A worker as the scheduler sees it; `pool` is the name of that which it belongs to."""
    view = wire.WorkerView(
        registration=_registration(worker.info),
        load=_load(worker.load),
        state=worker.state(now_us).value,
        pending_attempts=len(worker.pending),
        running_attempts=len(worker.reported),
        pool=pool,
        state_reason=state_reason(worker, now_us),
        parameters=parameters(worker.rules),
    )
    if worker.last_report_wall_us:
        view.last_report_time.CopyFrom(_timestamp(worker.last_report_wall_us))
    if worker.drain_wall_us:
        view.drain_time.CopyFrom(_timestamp(worker.drain_wall_us))
    return view


def _registration(info: WorkerInfo) -> report_wire.WorkerRegistration:
    static = info.static_batching
    message = report_wire.WorkerRegistration(
        worker_id=info.worker_id,
        address=info.address,
        model=info.model,
        model_version=info.model_version,
        profile=info.profile,
        max_context_tokens=info.max_context_tokens,
        total_kv_blocks=info.total_kv_blocks,
        block_size=info.block_size,
        max_concurrent_requests=info.max_concurrent_requests,
        batching=report_wire.BATCHING_STATIC if static else report_wire.BATCHING_CONTINUOUS,
        batch_invariant=info.batch_invariant,
        gpu_id=info.gpu_id,
        tokenizer_fingerprint=info.tokenizer_fingerprint,
        dedicated_tenant_id=info.dedicated_tenant_id,
        embeddings=info.embeddings,
    )
    if info.start_us:
        message.start_duration.CopyFrom(_duration(info.start_us))
    return message


def _load(load: WorkerLoad) -> report_wire.WorkerLoad:
    if load.told:
        return report_wire.WorkerLoad.FromString(load.told)
    return report_wire.WorkerLoad(
        free_kv_blocks=load.free_kv_blocks,
        cached_kv_blocks=load.cached_kv_blocks,
        held_kv_blocks=load.held_kv_blocks,
        pinned_kv_blocks=load.pinned_kv_blocks,
        running_requests=load.running_requests,
        waiting_requests=load.waiting_requests,
        pending_prefill_tokens=load.pending_prefill_tokens,
        step_age=_duration(load.step_age_us),
        step_time=_duration(load.step_time_us),
        kv_bytes_used=load.kv_bytes_used,
        device_utilisation_millis=load.device_utilisation_millis,
        device_memory_used_bytes=load.device_memory_used_bytes,
        device_memory_total_bytes=load.device_memory_total_bytes,
        report_time=_timestamp(load.report_time_us),
        prefix_queries_total=load.prefix_queries_total,
        prefix_hits_total=load.prefix_hits_total,
        preemptions_total=load.preemptions_total,
    )


def _subject(subject: Subject) -> subject_pb2.Subject:
    return subject_pb2.Subject(
        tenant_id=subject.tenant_id,
        user_id=subject.user_id,
        api_key_id=subject.api_key_id,
        model=subject.model,
        model_version=subject.model_version,
        plan_id=subject.plan_id,
    )


def _timestamp(micros: int) -> Timestamp:
    moment = Timestamp()
    moment.FromMicroseconds(micros)
    return moment


def _duration(micros: int) -> Duration:
    length = Duration()
    length.FromMicroseconds(micros)
    return length
