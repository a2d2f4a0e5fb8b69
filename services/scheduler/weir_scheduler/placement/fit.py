"""Whether a worker can take a request: at all, and now."""

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
    if info.max_context_tokens and entry.prompt_tokens >= info.max_context_tokens:
        return (
            f"the prompt has {entry.prompt_tokens} tokens and the context of the worker "
            f"{info.max_context_tokens}; shorten the prompt"
        )
    if entry.choices > 1 and (why := _too_many_answers(entry.choices, info, rules)):
        return why
    if entry.estimated_cost > rules.max_batch_tokens:
        return (
            f"its estimated cost is {entry.estimated_cost} tokens and max_batch_tokens is "
            f"{rules.max_batch_tokens}; shorten the prompt or lower max_new_tokens"
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


def blocked_by(entry: QueueEntry, view: WorkerView) -> WaitReason | None:
    """What keeps a worker from taking it now; None if it can."""
    if view.info.static_batching and not view.idle and view.static_batch != entry.request_class:
        return WaitReason.BATCH_FULL
    if view.places + entry.choices > view.max_requests:
        return WaitReason.WORKER_FULL
    if view.places + entry.choices > view.rules.max_batch_size:
        return WaitReason.BATCH_FULL
    if view.cost + entry.estimated_cost > view.rules.max_batch_tokens:
        return WaitReason.BATCH_FULL
    if view.info.total_kv_blocks and start_blocks(entry, view.info) > view.free_kv_blocks:
        return WaitReason.KV_FULL
    return None
