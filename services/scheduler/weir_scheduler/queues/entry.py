"""A request as the queue sees it."""

from dataclasses import dataclass
from enum import StrEnum


class RequestClass(StrEnum):
    """Whether somebody waits for the answer."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class LatencySla(StrEnum):
    """Wish for latency over throughput; independent of priority."""

    LOW = "low"
    NORMAL = "normal"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What policies and placement know of one request that waits.

    Attributes:
        request_id: unique while the request is in the system.
        sequence: order of first arrival at this scheduler; breaks ties, kept over requeues.
        tenant_id: who is charged.
        model: public name, as resolved.
        model_version: empty for any.
        request_class: interactive or batch.
        priority: 0 to 100, higher is more urgent.
        latency_sla: chooses the batch window.
        prompt_tokens: exact.
        max_new_tokens: upper bound of the output of all answers, tokens.
        estimated_cost: prompt + alpha x max_new_tokens, tokens.
        predicted_output: expected output, tokens, at most max_new_tokens.
        arrival_us: first arrival at a gateway, on the scheduler's monotonic axis; kept over
            requeues, so that a request never loses its place.
        enqueued_us: begin of the present wait, monotonic.
        deadline_us: monotonic moment after which the answer is worthless.
        session_id: empty for none.
        prefix_hashes: chained hashes of the prompt's prefix, first block first.
        attempts: dispatches made so far.
        excluded: workers that failed it.
        choices: answers to be made at once, 1 or more.
        fallback_versions: may serve it while no live worker serves `model_version`, in order.
        embed: it asks for embeddings: nothing is generated.
        long: whether the prompt is above `long_context_threshold`.
        cached_tokens: prompt tokens that the best cache of the pool held when it came; fewer
            than prompt_tokens.
    """

    request_id: str
    sequence: int
    tenant_id: str
    model: str
    model_version: str
    request_class: RequestClass
    priority: int
    latency_sla: LatencySla
    prompt_tokens: int
    max_new_tokens: int
    estimated_cost: int
    predicted_output: int
    arrival_us: int
    enqueued_us: int
    deadline_us: int
    session_id: str = ""
    prefix_hashes: tuple[bytes, ...] = ()
    attempts: int = 0
    excluded: frozenset[str] = frozenset()
    choices: int = 1
    fallback_versions: tuple[str, ...] = ()
    embed: bool = False
    long: bool = False
    cached_tokens: int = 0


def estimated_cost(prompt_tokens: int, max_new_tokens: int, alpha_millis: int) -> int:
    """Admission cost in tokens: prompt + alpha x max_new_tokens, rounded up."""
    return prompt_tokens - (-alpha_millis * max_new_tokens // 1000)
