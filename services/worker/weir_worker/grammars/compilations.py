"""Submissions whose grammars are being compiled, beside the engine's steps."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import msgspec

from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Submit
from weir_worker.sampling.constraint import Constraint
from weir_worker.sampling.grammar import Grammar

Compile = Callable[[str, Grammar], Constraint]
"""Tenant and grammar -> what follows it. Raises WeirError."""


class Compilations:
    """Compiles in one thread, in order of arrival.

    Args:
        compile_grammar: does the work.
    """

    def __init__(self, compile_grammar: Compile) -> None:
        self._compile = compile_grammar
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar-compile")
        self._pending: dict[str, tuple[Submit, Future[Constraint]]] = {}

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
        future = self._thread.submit(self._compile, submit.tenant, submit.grammar)
        self._pending[submit.request_id] = (submit, future)

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
