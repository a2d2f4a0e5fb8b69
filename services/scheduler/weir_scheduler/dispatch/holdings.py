"""What a request takes up on the worker that it is given to."""

from weir_scheduler.placement.fit import start_blocks
from weir_scheduler.queues.batch_window import is_offline
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.workers.holding import Holding
from weir_scheduler.workers.worker_info import WorkerInfo


def holding_of(entry: QueueEntry, info: WorkerInfo, uncached_tokens: int) -> Holding:
    """At its dispatch; `uncached_tokens` of the prompt are still to be computed."""
    return Holding(
        entry.estimated_cost,
        start_blocks(entry, info),
        places=entry.choices,
        long=entry.long,
        offline=is_offline(entry),
        prompt_tokens=entry.prompt_tokens,
        prefill_left=uncached_tokens,
        output=entry.predicted_output,
        output_left=entry.predicted_output,
    )
