"""Event streams and watches that are open at this gateway, by tenant."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.holdings.bounds import value

_RETRY_S = 5.0


class OpenStreams:
    """Gives each of them a place, of its tenant's and of all.

    Args:
        most: of all tenants together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Holds a place while it is entered.

        Raises:
            WeirError: CONCURRENCY_LIMIT_EXCEEDED, the tenant has as many as it may; OVERLOADED,
                the gateway has.
        """
        tenant_id = caller.tenant_id
        self._check(self._open[tenant_id], value(caller.policy.keep, "max_event_streams"))
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            if not self._open[tenant_id]:
                del self._open[tenant_id]

    def _check(self, used: int, most: int) -> None:
        if used >= most:
            raise WeirError(
                Reason.CONCURRENCY_LIMIT_EXCEEDED,
                f"the account has {used} event streams and watches open at this gateway, of at "
                f"most {most}; close some, ask now and then instead, or have "
                "keep.max_event_streams of your policy raised",
                retry_after_s=_RETRY_S,
                metadata={"limit": str(most), "used": str(used), "requested": "1"},
            )
        if self._open.total() >= self._most:
            raise WeirError(
                Reason.OVERLOADED,
                f"this gateway has {self._most} event streams open (event_streams_at_once); "
                "try another gateway, or later",
                retry_after_s=_RETRY_S,
            )
