"""A worker that could take one request."""

from dataclasses import dataclass

from weir_scheduler.workers.worker_view import WorkerView


@dataclass(frozen=True, slots=True)
class Candidate:
    """One worker, weighed for one request.

    Attributes:
        view: the worker.
        cached_tokens: prompt tokens that its cache holds, by its own KV events.
        has_session: it served the last turn of the request's session.
    """

    view: WorkerView
    cached_tokens: int
    has_session: bool
