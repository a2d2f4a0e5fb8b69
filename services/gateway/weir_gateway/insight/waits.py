"""What each reason to wait means, and what changes it."""

from weir.scheduler.v1.scheduler_service_pb2 import QueueReason

_MORE = "more workers, or a higher"
_WORDS = {
    "WORKER_FULL": (
        "every worker had as many requests as it takes",
        f"to change: {_MORE} `max_concurrent_requests`",
    ),
    "BATCH_FULL": (
        "every worker's batch was full",
        f"to change: {_MORE} `max_batch_size` or `max_batch_tokens`",
    ),
    "KV_FULL": (
        "no worker had enough free KV blocks",
        "to change: more workers, more KV memory (`kv_memory_bytes`), or fewer requests at once",
    ),
    "TENANT_CAP": (
        "its tenant had as many requests running as it may",
        "to change: `max_running_requests` of the tenant's policy",
    ),
    "BEHIND_OTHERS": (
        "other requests were ahead of it",
        "to change: its priority, its tenant's `weight`, or more workers",
    ),
    "NO_WORKER": (
        "no live worker served its model",
        "to change: start a worker of the model; `weir workers ls` shows those there are",
    ),
    "BATCH_WINDOW": (
        "the batch window was open, to gather a larger batch",
        "to change: `latency_sla`, or the pool's batch window",
    ),
    "LONG_CAP": (
        "every worker had as many long requests as it takes",
        "to change: `max_running_long` of the pool",
    ),
    "CLASS_SHARE": (
        "it was the turn of requests of the other class",
        "to change: the pool's shares of the classes",
    ),
    "LENGTH_SHARE": (
        "it was the turn of requests of other length",
        "to change: the pool's shares of lengths",
    ),
    "WORKERS_TRIED": (
        "every live worker had failed it, and it was to be tried again",
        "look at the workers' logs",
    ),
    "SESSION_WAIT": (
        "the worker that keeps its session was full",
        "to change: `session_wait_ms`",
    ),
    "PREEMPTED": (
        "it had given its place to a more urgent request",
        "to change: its priority, or more workers",
    ),
    "PREEMPTING": (
        "it was given the place of a less urgent request, which had to leave first",
        "to change: more workers",
    ),
}
_UNKNOWN = ("the scheduler named no reason", "`weir pools` shows what waits")


def why_and_knob(reason: int) -> tuple[str, str]:
    """Why a request waits, in words, and what to change."""
    if reason not in QueueReason.values():
        return _UNKNOWN
    name = QueueReason.Name(reason).removeprefix("QUEUE_REASON_")  # type: ignore[arg-type]
    return _WORDS.get(name, _UNKNOWN)
