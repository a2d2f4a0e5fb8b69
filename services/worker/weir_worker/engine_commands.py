"""What attempts ask of the engine."""

from typing import Protocol

from weir_core.errors import Reason
from weir_worker.engine.commands import Submit


class EngineCommands(Protocol):
    """The part of `EngineClient` that attempts need."""

    def submit(self, submit: Submit) -> None:
        """Queues a start. Raises WeirError(WORKER_LOST) when the engine is gone."""

    def abort(self, request_id: str, attempt: int, reason: Reason, message: str) -> None:
        """Queues an abort; without effect when the attempt or the engine is gone."""

    def release_session(self, tenant: str, session: str) -> None:
        """Queues the release of a session; without effect when it or the engine is gone."""
