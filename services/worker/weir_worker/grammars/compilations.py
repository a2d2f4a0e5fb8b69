"""Submissions whose grammars are being compiled, beside the engine's steps."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

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

    def start(self, submit: Submit) -> Submit | None:
        """Begin; returns an older attempt of the same request, which is compiled no more.

        Raises:
            WeirError: STALE_ATTEMPT when the one here is not older.
        """
        assert submit.grammar is not None
        found = self._pending.get(submit.request_id)
        if found is not None and found[0].attempt >= submit.attempt:
            raise WeirError(
                Reason.STALE_ATTEMPT, f"attempt {found[0].attempt} of the request is here already"
            )
        older = self.drop(submit.request_id, found[0].attempt) if found is not None else None
        future = self._thread.submit(self._compile, submit.tenant, submit.grammar)
        self._pending[submit.request_id] = (submit, future)
        return older

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
