"""Which of some tenants is most over its share."""

from collections.abc import Callable, Iterator

from weir_worker.kv.tenant_account import TenantAccount


class ShareHeap:
    """Binary heap of accounts with their places in it: the one most over its share on top.

    `top` is O(1), everything else O(log accounts). Whoever changes what `is_over` compares of an
    account that may be in it calls `update`.
    """

    def __init__(
        self,
        is_over: Callable[[TenantAccount, TenantAccount], bool] = TenantAccount.is_over,
    ) -> None:
        self.is_over = is_over
        self._heap: list[TenantAccount] = []
        self._place: dict[TenantAccount, int] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, account: TenantAccount) -> bool:
        return account in self._place

    def __iter__(self) -> Iterator[TenantAccount]:
        """Accounts in the order of the heap's array."""
        return iter(self._heap)

    def top(self) -> TenantAccount | None:
        """The account most over its share; None when there is none."""
        return self._heap[0] if self._heap else None

    def add(self, account: TenantAccount) -> None:
        """Put in an account; nothing happens when it is there."""
        if account in self._place:
            return
        self._heap.append(account)
        self._place[account] = len(self._heap) - 1
        self._rise(len(self._heap) - 1)

    def discard(self, account: TenantAccount) -> None:
        """Take out an account; nothing happens when it is not there."""
        place = self._place.pop(account, None)
        if place is None:
            return
        last = self._heap.pop()
        if last is not account:
            self._heap[place] = last
            self._place[last] = place
            self._settle(place)

    def update(self, account: TenantAccount) -> None:
        """Note that its footprint or weight has changed, if it is here."""
        place = self._place.get(account)
        if place is not None and len(self._heap) > 1:
            self._settle(place)

    def _settle(self, place: int) -> None:
        self._sink(self._rise(place))

    def _rise(self, place: int) -> int:
        while place and self.is_over(self._heap[place], self._heap[(place - 1) // 2]):
            self._swap(place, (place - 1) // 2)
            place = (place - 1) // 2
        return place

    def _sink(self, place: int) -> None:
        heap = self._heap
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and self.is_over(heap[child + 1], heap[child]):
                child += 1
            if not self.is_over(heap[child], heap[place]):
                return
            self._swap(place, child)
            place = child

    def _swap(self, one: int, other: int) -> None:
        heap = self._heap
        heap[one], heap[other] = heap[other], heap[one]
        self._place[heap[one]], self._place[heap[other]] = one, other
