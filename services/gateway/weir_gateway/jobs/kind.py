"""What a job is about: how its body is read, and its result written."""

from collections.abc import Sequence
from typing import Protocol

from weir_core.errors import Reason, WeirError
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.jobs.job import Job

FOR_CALLERS = ("native", "chat", "completion")
"""Kinds that are jobs to callers; others are known to them as something else."""


class JobRecorder(Protocol):
    """Takes one attempt's answer. A later attempt gets another recorder."""

    async def pieces(self, pieces: Sequence[Piece]) -> None:
        """New text: as it comes if the request streams, else all at once before `finish`."""

    async def finish(self, ending: Ending) -> bytes:
        """The result; `ending.error` is None, or a limit cut the answer short.

        It is written down with the end of the job in one transaction, after this returns.
        """


class JobKind(Protocol):
    """One form of bodies and results."""

    def parse(self, body: bytes) -> GenerationRequest:
        """The request. Raises WeirError; may run in a thread."""

    def recorder(self, job: Job, live: LiveRequest) -> JobRecorder:
        """Of one attempt that was admitted."""

    def text(self, result: bytes) -> str:
        """The answer's text in a result, as `JobService` shows it."""


class JobKinds:
    """Kinds by name; the rooms that have one register it while the gateway is put together."""

    def __init__(self) -> None:
        self._kinds: dict[str, JobKind] = {}

    def register(self, name: str, kind: JobKind) -> None:
        """Adds a kind. Raises ValueError where the name is taken."""
        if name in self._kinds:
            raise ValueError(f"there is a kind of jobs called {name} already")
        self._kinds[name] = kind

    def of(self, name: str) -> JobKind:
        """A kind. Raises WeirError(NOT_BUILT_YET): another release wrote the job."""
        kind = self._kinds.get(name)
        if kind is None:
            raise WeirError(
                Reason.NOT_BUILT_YET,
                f"this gateway knows no jobs of the kind {name!r}; upgrade it, or submit it again",
            )
        return kind
