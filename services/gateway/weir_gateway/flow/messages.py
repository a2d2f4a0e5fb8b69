"""The messages of one request to and from ratelimiter, scheduler and worker."""

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, TraceContext
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest, SettleRequest
from weir.scheduler.v1.scheduler_service_pb2 import Dispatched, Enqueue
from weir.worker.v1.worker_service_pb2 import AttemptDelta, GenerationSpec, StartAttempt
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.request_facts import RequestFacts
from weir_gateway.intake.kv_use import kv_policy_of, placement_hashes
from weir_gateway.intake.prepared_request import PreparedRequest


def timestamp(unix_us: int) -> Timestamp:
    """Unix microseconds as a message."""
    seconds, rest = divmod(unix_us, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000)


def reserve_message(
    request_id: str, prepared: PreparedRequest, *, lease_s: float
) -> ReserveRequest:
    """Asks the ratelimiter for the prompt and all that may be answered."""
    message = ReserveRequest(
        request_id=request_id,
        subject=prepared.subject,
        prompt_tokens=prepared.prompt_tokens,
        max_new_tokens=prepared.output_tokens,
        mode=prepared.mode,
        # Each of several answers fits, as was checked; all together need not.
        model_context_tokens=prepared.max_context_tokens if prepared.choices == 1 else 0,
    )
    setattr(message, "class", prepared.request_class)
    message.ttl.FromMilliseconds(round(lease_s * 1_000))
    return message


def piece_of(delta: AttemptDelta, prepared: PreparedRequest) -> Piece:
    """What a worker sampled, as it goes to the client."""
    piece = Piece(delta.text, list(delta.token_ids), delta.choice)
    if prepared.embed_lengths:
        piece.embedding = list(delta.embedding)
    if prepared.tells_logprobs:
        piece.logprobs = list(delta.logprobs)
        piece.prompt_logprobs = list(delta.prompt_logprobs)
    return piece


def settle_message(record: bytes, ending: Ending, lifecycle: LifecycleRecord) -> SettleRequest:
    """Charges what ran; `record` is the reservation's."""
    return SettleRequest(
        record=record,
        usage=ending.usage,
        usage_quality=ending.quality,
        outcome=ending.outcome,
        lifecycle=lifecycle,
    )


def enqueue_message(
    request_id: str,
    prepared: PreparedRequest,
    facts: RequestFacts,
    *,
    deadline_us: int,
    trace: TraceContext,
) -> Enqueue:
    """Asks the scheduler for a worker; again with the original arrival after a loss."""
    message = Enqueue(
        request_id=request_id,
        subject=prepared.subject,
        priority=prepared.priority,
        latency_sla=prepared.latency_sla,
        prompt_tokens=prepared.prompt_tokens,
        max_new_tokens=prepared.output_tokens,
        arrival_time=timestamp(facts.accepted_us),
        deadline=timestamp(deadline_us),
        trace=trace,
        attempts=facts.attempt,
        excluded_workers=sorted(facts.excluded),
        preemptions=facts.preemptions,
        fallback_versions=prepared.fallback_versions,
        mode=prepared.mode,
        choices=prepared.choices if prepared.choices > 1 else 0,
        prefix_hashes=placement_hashes(prepared),
        session_id=prepared.session_id,
    )
    setattr(message, "class", prepared.request_class)
    message.embed = bool(prepared.embed_lengths)
    if facts.queued_us:
        message.waiting_since.CopyFrom(timestamp(facts.waiting_since_us))
    return message


def start_message(
    prepared: PreparedRequest,
    facts: RequestFacts,
    dispatched: Dispatched,
    *,
    deadline_us: int,
    trace: TraceContext,
) -> StartAttempt:
    """Starts the attempt that the scheduler granted."""
    granted = (dispatched.max_new_tokens or prepared.output_tokens) // prepared.choices
    output_format = prepared.output_format
    return StartAttempt(
        grant=dispatched.grant,
        spec=GenerationSpec(
            attempt=dispatched.attempt,
            tenant_id=prepared.subject.tenant_id,
            prompt_token_ids=prepared.prompt.token_ids,
            tenant_prefix_tokens=prepared.prompt.shared_tokens,
            private_scope=prepared.kept_session_id,
            sampling=prepared.sampling,
            max_new_tokens=min(prepared.max_new_tokens, granted),
            deadline=timestamp(deadline_us),
            trace=trace,
            priority=prepared.priority,
            arrival_time=timestamp(facts.accepted_us),
            model=prepared.subject.model,
            tokenizer_fingerprint=prepared.fingerprint,
            embed_lengths=prepared.embed_lengths,
            kv=kv_policy_of(prepared.caller.policy.kv, prepared.session),
            grammar=None if output_format is None else output_format.to_message(),
        ),
    )
