"""Where one output is in its grammar."""

from concurrent.futures import Executor, Future

from llguidance import LLMatcher


class OutputMatcher:
    """Tells which tokens may come next, and when the output is complete.

    The tokens that may come next are worked out as soon as the last one is known, in a thread
    of their own, while the model computes: the step seldom waits for them.

    Args:
        matcher: at its start, owned by this object from now on.
        executor: runs the look-ups of all outputs, in order.

    Attributes:
        complete: nothing can follow what has been drawn.
        problem: why the grammar can be followed no further; empty while it can.
    """

    __slots__ = ("_executor", "_mask", "_matcher", "complete", "problem")

    def __init__(self, matcher: LLMatcher, executor: Executor) -> None:
        self.problem = ""
        self.complete = False
        self._matcher = matcher
        self._executor = executor
        self._mask: Future[bytes] = executor.submit(matcher.compute_bitmask)

    def allowed(self) -> bytes:
        """One bit for each token of the vocabulary, the lowest first; empty with a problem."""
        # Not result(): a panic of the library is no Exception, and would end the engine.
        if self._mask.exception() is not None or self._matcher.is_error():
            self.problem = "the grammar became too complex to follow"
            return b""
        mask = self._mask.result()
        if mask.count(0) == len(mask):
            self.problem = "the grammar leaves no token to go on with"
            return b""
        return mask

    def note(self, token_id: int) -> None:
        """Go on to the next token."""
        if not self._matcher.consume_token(token_id):
            self.problem = self.problem or "the output left its grammar"
            return
        # Asked now: the matcher is the thread's from the next line on.
        self.complete = self._matcher.is_stopped()
        if not self.complete:
            self._mask = self._executor.submit(self._matcher.compute_bitmask)
