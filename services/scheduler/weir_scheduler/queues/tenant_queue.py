"""The waiting requests of one tenant."""

from weir_scheduler.policies.ordering import OrderingPolicy, OrderKey
from weir_scheduler.policies.promotion import Promotion
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.keyed_heap import KeyedHeap

AgeKey = tuple[int, int]


class TenantQueue:
    """Requests in the order of a policy, and by age; every operation O(log n) amortised.

    Args:
        policy: the order.
        promotion: shared by the queues among which aged requests may overtake.
    """

    def __init__(self, policy: OrderingPolicy, promotion: Promotion) -> None:
        self._policy = policy
        self._promotion = promotion
        self._entries: dict[str, QueueEntry] = {}
        self._by_key: KeyedHeap[str] = KeyedHeap()
        self._by_age: KeyedHeap[str] = KeyedHeap()
        self._by_mark: KeyedHeap[str] = KeyedHeap()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._entries

    def add(self, entry: QueueEntry) -> None:
        """Adds a request. Raises ValueError when it waits here already."""
        if entry.request_id in self._entries:
            raise ValueError(f"request {entry.request_id} waits already")
        self._entries[entry.request_id] = entry
        self._by_key.put(entry.request_id, self._policy.key(entry))
        if self._policy.overtaking is not None:
            self._by_age.put(entry.request_id, (entry.arrival_us, entry.sequence))
            self._by_mark.put(entry.request_id, self._promotion.mark)

    def remove(self, request_id: str) -> QueueEntry:
        """Takes a request out. Raises KeyError when it does not wait here."""
        entry = self._entries.pop(request_id)
        self._by_key.discard(request_id)
        self._by_age.discard(request_id)
        self._by_mark.discard(request_id)
        return entry

    def reorder(self, request_id: str) -> None:
        """The policy says something else about a waiting request. Raises KeyError."""
        self._by_key.put(request_id, self._policy.key(self._entries[request_id]))

    def head(self, now_us: int) -> QueueEntry | None:
        """The request to go next: the policy's first, or the oldest when its turn has come."""
        if not self._entries:
            return None
        oldest = self.oldest()
        mark = self.earliest_mark()
        if oldest is not None and self._promotion.due(oldest.arrival_us, mark, now_us):
            return oldest
        return self.first()

    def first(self) -> QueueEntry | None:
        """The policy's first."""
        request_id = self._by_key.peek()
        return None if request_id is None else self._entries[request_id]

    def first_key(self) -> OrderKey | None:
        """The key of the policy's first."""
        key: OrderKey | None = self._by_key.peek_key()
        return key

    def oldest(self) -> QueueEntry | None:
        """The longest waiting; None in a queue whose policy knows no aging."""
        request_id = self._by_age.peek()
        return None if request_id is None else self._entries[request_id]

    def oldest_key(self) -> AgeKey | None:
        """Arrival and sequence of the longest waiting."""
        key: AgeKey | None = self._by_age.peek_key()
        return key

    def earliest_mark(self) -> int | None:
        """The mark of the one that came first (see `Promotion`); None as for `oldest`."""
        mark: int | None = self._by_mark.peek_key()
        return mark

    def entries(self) -> list[QueueEntry]:
        """All requests, in no particular order."""
        return list(self._entries.values())

    def ordered(self, limit: int) -> list[QueueEntry]:
        """The first `limit` requests in the policy's order; O(n log limit)."""
        return [self._entries[request_id] for request_id in self._by_key.ordered(limit)]

    def position(self, request_id: str) -> int:
        """Place in the policy's order, from 1; O(n). Raises KeyError."""
        return self._by_key.rank(request_id)
