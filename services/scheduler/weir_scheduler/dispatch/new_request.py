"""A request as a gateway hands it over."""

from dataclasses import dataclass

from weir_scheduler.queues.entry import LatencySla, RequestClass


@dataclass(frozen=True, slots=True)
class Subject:
    """Who asks for what; see `weir.common.v1.Subject`."""

    tenant_id: str
    user_id: str
    api_key_id: str
    model: str
    model_version: str
    plan_id: str


@dataclass(frozen=True, slots=True)
class TraceRef:
    """W3C trace context of the request."""

    traceparent: str = ""
    tracestate: str = ""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """What `Enqueue` says, validated.

    Attributes:
        request_id: unique.
        subject: who and what.
        request_class: interactive or batch.
        priority: 0 to 100.
        latency_sla: chooses the batch window.
        prompt_tokens: exact, 1 or more.
        max_new_tokens: 1 or more.
        arrival_wall_us: first arrival at a gateway, Unix microseconds; None for now.
        deadline_wall_us: Unix microseconds; None for the default.
        trace: parent of the queue span.
        session_id: empty for none.
        prefix_hashes: of the prompt.
        attempts: made already, when a scheduler was lost.
        excluded: workers that failed it.
        choices: answers to be made at once.
        fallback_versions: may serve it while no live worker serves its own, in order.
        preemptions: of the attempts, those that gave their place to a more urgent request.
        waiting_since_wall_us: begin of its wait, when it is enqueued again; None for now.
        embed: it asks for embeddings.
        running_worker_id: where it runs already as number `attempts`; empty if it waits.
    """

    request_id: str
    subject: Subject
    request_class: RequestClass = RequestClass.INTERACTIVE
    priority: int = 0
    latency_sla: LatencySla = LatencySla.NORMAL
    prompt_tokens: int = 1
    max_new_tokens: int = 1
    arrival_wall_us: int | None = None
    deadline_wall_us: int | None = None
    trace: TraceRef = TraceRef()
    session_id: str = ""
    prefix_hashes: tuple[bytes, ...] = ()
    attempts: int = 0
    excluded: frozenset[str] = frozenset()
    choices: int = 1
    fallback_versions: tuple[str, ...] = ()
    preemptions: int = 0
    waiting_since_wall_us: int | None = None
    running_worker_id: str = ""
    embed: bool = False
