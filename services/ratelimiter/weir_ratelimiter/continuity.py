"""Which windows began while everything was in order, and so are known to be unused."""

from collections.abc import Callable, Iterable

from weir_core.errors import WeirError
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.directory.tenure import Tenure
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.store.base import Store

_MARGIN_MS = 60_000
"""So long before a window everything was in order: clocks differ, and news takes its time."""

_MOST_LENT = 100_000


class Continuity:
    """Watches the directory and the store for gaps.

    Nobody is admitted against a window that the store does not know. So what a window that is
    still unknown was used for can only have been admitted while its limit was not in force, by a
    store whose state is lost, or on a share of the limits: if there was none of these since
    before it began, there is nothing to be read from the ledger.

    Args:
        store: the account.
        now_ms: wall time, Unix milliseconds.
    """

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._tenure = Tenure(now_ms())
        self._epoch = ""
        self._since_ms = self._seen_ms = now_ms()
        self._lent_ms: dict[str, int] = {}

    def use(self, book: LimitBook) -> None:
        """Note which budgets are in force now."""
        self._tenure.use(book.budgets, book.plan_of, self._now_ms())
        self.observe()

    def observe(self) -> None:
        """Note whose state the store holds; call it often: what is not seen is not vouched for."""
        now_ms, epoch = self._now_ms(), self._store.epoch
        if epoch != self._epoch or now_ms < self._seen_ms:
            self._epoch, self._since_ms = epoch, now_ms
        self._seen_ms = now_ms

    def lent(self, limits: Iterable[Limit]) -> None:
        """Note that a request was admitted on a share of these limits, and is told later."""
        if len(self._lent_ms) >= _MOST_LENT:
            self._lent_ms.clear()
            self._since_ms = self._now_ms()
        keys = (limit.key for limit in limits if limit.kind is Kind.WINDOW)
        self._lent_ms.update(dict.fromkeys(keys, self._now_ms()))

    async def is_unused(self, limit: Limit, window: Window) -> bool:
        """Whether a window of which the store just said that it is unknown is surely unused."""
        if not self._covers(limit, window):
            return False
        try:
            epoch = await self._store.whole_epoch()
        except WeirError:
            return False
        self.observe()
        return epoch == self._epoch and self._covers(limit, window)

    def changed_ms(self, limit: Limit) -> int:
        """When this process last saw what a budget counts change; 0 if it never did."""
        return self._tenure.changed_ms(limit)

    @property
    def began_ms(self) -> int:
        """Since when this process sees changes; what counted before may have been another limit."""
        return self._tenure.first_ms

    def _covers(self, limit: Limit, window: Window) -> bool:
        lent_ms = self._lent_ms.get(limit.key, self._since_ms)
        since_ms = max(self._since_ms, lent_ms, self._tenure.since_ms(limit))
        return since_ms + _MARGIN_MS <= window.start_ms
