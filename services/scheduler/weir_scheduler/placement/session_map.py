"""Which worker served a session last."""


class SessionMap:
    """Bounded map from session to worker; the least recently used go first.

    A hint alone: the session's KV lives on the worker, and a session whose worker is gone is
    placed like any request.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._workers: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._workers)

    def worker_of(self, session_id: str) -> str | None:
        """The worker of the last turn."""
        return self._workers.get(session_id) if session_id else None

    def placed(self, session_id: str, worker_id: str) -> None:
        """A turn went to a worker."""
        if not session_id:
            return
        self._workers.pop(session_id, None)
        self._workers[session_id] = worker_id
        if len(self._workers) > self._capacity:
            del self._workers[next(iter(self._workers))]
