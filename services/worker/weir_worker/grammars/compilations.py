"""Submissions whose grammars are being compiled, beside the engine's steps."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock

import msgspec

from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Submit
from weir_worker.sampling.constraint import Constraint
from weir_worker.sampling.grammar import Grammar

Compile = Callable[[str, Grammar], Constraint]
"""Tenant and grammar -> what follows it. Raises WeirError."""

_THREADS = 4


class Compilations:
    """Compiles in threads: of each tenant one grammar at a time, in order of arrival.

    A short schema can take many seconds, and nothing stops it: its tenant's others wait for it,
    and nobody else's while fewer than the threads are at such work.

    Args:
        compile_grammar: does the work; called in several threads, for a tenant in one at a time.
    """

    def __init__(self, compile_grammar: Compile) -> None:
        self._compile = compile_grammar
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="grammar-compile")
        self._pending: dict[str, tuple[Submit, Future[Constraint]]] = {}
        # A tenant is here while a thread works for it.
        self._queues: dict[str, deque[tuple[Grammar, Future[Constraint]]]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._pending)

    def holds(self, request_id: str, attempt: int) -> bool:
        """Whether the submission is here."""
        found = self._pending.get(request_id)
        return found is not None and found[0].attempt == attempt

    def supersede(self, submit: Submit) -> Submit | None:
        """Give up an older attempt of the same request, and return it.

        Raises:
            WeirError: STALE_ATTEMPT when the one here is not older.
        """
        found = self._pending.get(submit.request_id)
        if found is None:
            return None
        if found[0].attempt >= submit.attempt:
            raise WeirError(
                Reason.STALE_ATTEMPT, f"attempt {found[0].attempt} of the request is here already"
            )
        return self.drop(submit.request_id, found[0].attempt)

    def start(self, submit: Submit) -> None:
        """Begin; no other attempt of the request is here."""
        assert submit.grammar is not None
        tenant, job = submit.tenant, (submit.grammar, Future[Constraint]())
        self._pending[submit.request_id] = (submit, job[1])
        with self._lock:
            if tenant in self._queues:
                self._queues[tenant].append(job)
                return
            self._queues[tenant] = deque((job,))
        self._threads.submit(self._work, tenant)

    def release_session(self, tenant: str, session: str) -> None:
        """Let what is here for a session keep nothing when it ends."""
        for submit, future in list(self._pending.values()):
            if (submit.tenant, submit.private_scope) == (tenant, session):
                kv = msgspec.structs.replace(submit.kv, session_ttl_ms=0)
                changed = msgspec.structs.replace(submit, kv=kv)
                self._pending[submit.request_id] = (changed, future)

    def drop(self, request_id: str, attempt: int) -> Submit | None:
        """Give up a submission, if it is here."""
        found = self._pending.get(request_id)
        if found is None or found[0].attempt != attempt:
            return None
        del self._pending[request_id]
        found[1].cancel()
        return found[0]

    def drop_all(self) -> list[Submit]:
        """Give up everything."""
        submits = [submit for submit, _ in self._pending.values()]
        return [submit for submit in submits if self.drop(submit.request_id, submit.attempt)]

    def take_ready(self) -> Iterator[tuple[Submit, Future[Constraint]]]:
        """Submissions whose grammars are compiled, or could not be."""
        ready = [request_id for request_id, (_, future) in self._pending.items() if future.done()]
        for request_id in ready:
            yield self._pending.pop(request_id)

    def wait(self, timeout_s: float) -> None:
        """Returns when one is ready, or after a while."""
        wait([future for _, future in self._pending.values()], timeout_s, "FIRST_COMPLETED")

    def _work(self, tenant: str) -> None:
        """Compile one of a tenant's; its next one goes behind what others wait for."""
        with self._lock:
            grammar, future = self._queues[tenant].popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(self._compile(tenant, grammar))
            # Not Exception: a panic of the library is none.
            except BaseException as error:
                future.set_exception(error)
        with self._lock:
            if not self._queues[tenant]:
                del self._queues[tenant]
                return
        self._threads.submit(self._work, tenant)
