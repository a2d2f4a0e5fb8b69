"""A worker at one moment, for pure placement functions."""

from dataclasses import dataclass

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.prefix_index import PrefixIndex
from weir_scheduler.workers.worker_info import WorkerInfo


@dataclass(frozen=True, slots=True)
class WorkerView:
    """Immutable snapshot: the last report plus the scheduler's own increments.

    Attributes:
        info: registration.
        rules: bounds resolved for its profile.
        takes_work: registered, reporting, stepping, not draining, breaker closed or probing.
        requests: attempts on it, dispatched ones included.
        places: answers that these make at once.
        cost: their summed estimated cost, tokens.
        free_kv_blocks: free, cached or pinned blocks, less those that its attempts will still take.
        static_batch: class of the batch that a static worker is gathering in this pass of the
            dispatcher; None when it gathers none.
        prefixes: blocks that its cache holds; read only.
        long_requests: of `requests`, those with a long prompt.
        offline_cost: of `cost`, that of offline requests.
        prefill_left: prompt tokens that its attempts have still to compute.
        output_left: tokens that they are expected to produce still.
        recent: work lately given to it, in units of `RecentWork`.
    """

    info: WorkerInfo
    rules: WorkerRules
    takes_work: bool
    requests: int
    places: int
    cost: int
    free_kv_blocks: int
    static_batch: RequestClass | None
    prefixes: PrefixIndex
    long_requests: int = 0
    offline_cost: int = 0
    prefill_left: int = 0
    output_left: int = 0
    recent: float = 0.0

    @property
    def idle(self) -> bool:
        """Nothing runs or is on its way."""
        return self.requests == 0

    @property
    def backlog(self) -> int:
        """Tokens that it has still to compute and to produce."""
        return self.prefill_left + self.output_left

    @property
    def max_requests(self) -> int:
        """Answers at once: the smaller of the rules' bound and the worker's own."""
        most = self.rules.max_concurrent_requests
        own = self.info.max_concurrent_requests
        return min(own, most) if own else most

    @property
    def full(self) -> bool:
        """Whether not even the smallest request has a place."""
        return self.places >= min(self.max_requests, self.rules.max_batch_size)
