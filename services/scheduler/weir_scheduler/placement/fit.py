"""Whether a worker can take a request: at all, and now."""

from collections.abc import Iterable

from weir_scheduler.queues.batch_window import is_offline
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_view import WorkerView


def start_blocks(entry: QueueEntry, info: WorkerInfo) -> int:
    """KV blocks that must be free to start: the prompt and one block of output.

    What the output needs beyond that is not set aside: a worker that runs out pre-empts.
    """
    headroom = min(entry.max_new_tokens, info.block_size)
    return info.blocks_for(entry.prompt_tokens + headroom)


def never_fits(entry: QueueEntry, info: WorkerInfo, rules: WorkerRules) -> str | None:
    """Why an empty worker could not run it, with the numbers and the knob; None if it could."""
    if entry.embed and not info.embeddings:
        return "it asks for embeddings, which the worker does not make; choose another model"
    if info.max_context_tokens and entry.prompt_tokens >= info.max_context_tokens:
        return (
            f"the prompt has {entry.prompt_tokens} tokens and the context of the worker "
            f"{info.max_context_tokens}; shorten the prompt"
        )
    if entry.choices > 1 and (why := _too_many_answers(entry.choices, info, rules)):
        return why
    knob = "offline_max_batch_tokens" if is_offline(entry) else "max_batch_tokens"
    most = max(rules.max_batch_tokens, rules.offline_max_batch_tokens * is_offline(entry))
    if entry.estimated_cost > most:
        return (
            f"its estimated cost is {entry.estimated_cost} tokens and {knob} is "
            f"{most}; shorten the prompt or lower max_new_tokens"
        )
    tokens = entry.prompt_tokens + entry.max_new_tokens
    if info.max_context_tokens:
        tokens = min(tokens, info.max_context_tokens)
    if info.total_kv_blocks and info.blocks_for(tokens) > info.total_kv_blocks:
        return (
            f"it can grow to {tokens} tokens and the KV cache holds "
            f"{info.total_kv_blocks * info.block_size}; shorten the prompt or lower max_new_tokens"
        )
    return None


def _too_many_answers(choices: int, info: WorkerInfo, rules: WorkerRules) -> str | None:
    most = min(rules.max_concurrent_requests, rules.max_batch_size)
    most = min(most, info.max_concurrent_requests or most)
    if choices <= most:
        return None
    return (
        f"it asks for {choices} answers (n) and the worker makes {most} at once "
        "(max_concurrent_requests, max_batch_size); ask for fewer"
    )


def _within_cost(entry: QueueEntry, view: WorkerView) -> bool:
    """Whether the batch may cost that much more.

    All of it is bounded by `offline_max_batch_tokens`, and what is not offline in it by
    `max_batch_tokens`: offline work fills a larger batch without taking more of the room of
    interactive requests than they have of theirs.
    """
    rules = view.rules
    cost = view.cost + entry.estimated_cost
    if cost > max(rules.max_batch_tokens, rules.offline_max_batch_tokens):
        return False
    return is_offline(entry) or cost - view.offline_cost <= rules.max_batch_tokens


def blocked_by(entry: QueueEntry, view: WorkerView) -> WaitReason | None:
    """What keeps a worker from taking it now; None if it can."""
    if view.info.static_batching and not view.idle and view.static_batch != entry.request_class:
        return WaitReason.BATCH_FULL
    if view.places + entry.choices > view.max_requests:
        return WaitReason.WORKER_FULL
    if view.places + entry.choices > view.rules.max_batch_size:
        return WaitReason.BATCH_FULL
    if not _within_cost(entry, view):
        return WaitReason.BATCH_FULL
    cap = view.rules.max_running_long
    if entry.long and cap and view.long_requests >= cap:
        return WaitReason.LONG_CAP
    if view.info.total_kv_blocks and start_blocks(entry, view.info) > view.free_kv_blocks:
        return WaitReason.KV_FULL
    return None


def nearest_to_room(entry: QueueEntry, views: Iterable[WorkerView]) -> WorkerView | None:
    """Of the workers that could run a request, the one with most free KV, then least to do."""
    able = [
        view
        for view in views
        if view.takes_work
        and view.info.worker_id not in entry.excluded
        and never_fits(entry, view.info, view.rules) is None
    ]
    return max(able, key=lambda view: (view.free_kv_blocks, -view.cost), default=None)
