"""The gateway of a run: the scheduler's way out, and the workers' way back."""

from collections.abc import Callable, Sequence
from typing import Protocol

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptUsage
from weir_sim.core.stage import GATEWAY, Stage
from weir_sim.outcome import Ending


class WorkerEnd(Protocol):
    """What the scheduler and its gateways can do to a worker."""

    def arrive(self, key: AttemptKey) -> None:
        """An attempt comes in."""

    def abort(self, keys: Sequence[AttemptKey]) -> None:
        """Ends attempts."""

    def set_draining(self, *, draining: bool) -> None:
        """Takes no new attempts; or takes them again."""


class SimGateway:
    """Carries dispatches to workers and their news back, each `link_us` later (`Outbox`).

    It plays the part of the product's gateway: it reports first tokens and ends, and that an
    attempt broke; what broke before its first token is tried again by the scheduler.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.workers: dict[str, WorkerEnd] = {}
        """By id; whoever runs the fleet adds to it."""
        self.on_end: list[Callable[[str, AttemptUsage | None], None]] = []
        """Told of a request's end and of what it used: a limiter settles."""
        self._given_back: set[AttemptKey] = set()

    def queued(self, gateway: str, request_id: str, position: int, reason: WaitReason) -> None:
        """Positions are shown to nobody."""

    def dispatched(self, gateway: str, dispatch: Dispatch) -> None:
        """Calls the worker with the grant."""
        key, worker_id = dispatch.key, dispatch.worker.worker_id
        now_us = self._stage.now_us
        self._stage.journal.dispatched(key.request_id, key.number, worker_id, now_us)
        self._later(lambda: self.workers[worker_id].arrive(key))

    def requeued(self, gateway: str, request_id: str, cause: WeirError, position: int) -> None:
        """It waits again, at its old place."""

    def preempt(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        """Gives an attempt's place back, unless something of it was passed on."""
        self._later(lambda: self._give_back(key))

    def rejected(self, gateway: str, request_id: str, cause: WeirError) -> None:
        """The request ends."""
        self._stage.journal.rejected(request_id, cause, self._stage.now_us)
        self._ended(request_id, None)

    def attempt_lost(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        """The request ends, in the middle of its answer."""
        self._stage.journal.lost(key.request_id, cause, self._stage.now_us)
        self._ended(key.request_id, None)

    def abort(self, worker_id: str, keys: Sequence[AttemptKey], why: str) -> None:
        """Passes the order on."""
        aborted = list(keys)
        self._later(lambda: self.workers[worker_id].abort(aborted))

    def drain(self, worker_id: str, *, cancel: bool) -> None:
        """Passes the order on."""
        self._later(lambda: self.workers[worker_id].set_draining(draining=not cancel))

    def parameters(self, worker_id: str, rules: WorkerRules) -> None:
        """Bounds of workers do not change in a run."""

    def first_token(self, key: AttemptKey) -> None:
        """A worker has sampled a request's first token."""
        self._later(lambda: self._first_token(key))

    def finished(self, key: AttemptKey, usage: AttemptUsage) -> None:
        """A worker has completed a request."""
        self._later(lambda: self._finished(key, usage))

    def broke(self, key: AttemptKey, why: Reason) -> None:
        """An attempt could not start, or its stream broke."""
        self._later(lambda: self._broke(key, why))

    def _give_back(self, key: AttemptKey) -> None:
        life = self._stage.journal.lives[key.request_id]
        current = life.attempts == key.number and life.ending is Ending.UNFINISHED
        if current and life.first_token_us < 0:
            self._given_back.add(key)
            self._stage.tell().attempt_failed(GATEWAY, key, Reason.PREEMPTED, worker_fault=False)

    def _first_token(self, key: AttemptKey) -> None:
        if key in self._given_back:
            return
        self._stage.journal.first_token(key.request_id, self._stage.now_us)
        self._stage.tell().first_token(GATEWAY, key)

    def _finished(self, key: AttemptKey, usage: AttemptUsage) -> None:
        if key in self._given_back:
            return
        self._stage.journal.completed(key.request_id, self._stage.now_us)
        self._stage.tell().finish(GATEWAY, key, usage)
        self._ended(key.request_id, usage)

    def _broke(self, key: AttemptKey, why: Reason) -> None:
        self._stage.tell().attempt_failed(GATEWAY, key, why, worker_fault=True)

    def _ended(self, request_id: str, usage: AttemptUsage | None) -> None:
        for listener in self.on_end:
            listener(request_id, usage)

    def _later(self, action: Callable[[], None]) -> None:
        self._stage.events.at(self._stage.now_us + self._stage.link_us, action)
