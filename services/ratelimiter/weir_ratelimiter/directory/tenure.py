"""Since when every budget of the directory has been in force, for this process."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from weir_ratelimiter.domain.ids import parse_limit_key
from weir_ratelimiter.domain.limit import Layer, Limit

K = TypeVar("K")

Place = tuple[str, ...]
"""Where budgets are configured: `("plan", id)`, or the label of a layer and the owner's ids."""

_MOST_CHANGES = 100_000


class Tenure:
    """Goes from version to version of the directory.

    Each place counts as a whole: when what its budgets count is changed, when one is added or
    removed, all of them are in force since then. A changed capacity changes nothing.

    Args:
        now_ms: Unix milliseconds, now; nothing is in force yet.
    """

    def __init__(self, now_ms: int) -> None:
        self._first_ms = now_ms
        self._budgets: Mapping[Place, object] | None = None
        self._plan_of: Mapping[str, str] = {}
        self._changed_ms: dict[Place, int] = {}

    def use(self, budgets: Mapping[Place, object], plan_of: Mapping[str, str], now_ms: int) -> None:
        """Put a version in force.

        Args:
            budgets: what is counted, by place; places without budgets are left out.
            plan_of: the plan of each tenant.
            now_ms: Unix milliseconds.
        """
        if self._budgets is None:
            self._first_ms = now_ms
        else:
            self._note(_changed(self._budgets, budgets), now_ms)
            moved = _changed(self._plan_of, plan_of)
            self._note((_assignment(tenant_id) for tenant_id in moved), now_ms)
        self._budgets, self._plan_of = budgets, plan_of

    def since_ms(self, limit: Limit) -> int:
        """Since when a budget has counted what it counts, as far as this process saw."""
        return max(self._changed_ms.get(place, self._first_ms) for place in self._places(limit))

    @property
    def first_ms(self) -> int:
        """When this process put its first version in force: what was before, it did not see."""
        return self._first_ms

    def changed_ms(self, limit: Limit) -> int:
        """When this process last saw what a budget counts change; 0 if it never did."""
        if not self._changed_ms:
            return 0
        return max(self._changed_ms.get(place, 0) for place in self._places(limit))

    def _places(self, limit: Limit) -> list[Place]:
        _, owner, _ = parse_limit_key(limit.key)
        places: list[Place] = [(limit.layer.label, *owner)]
        if limit.layer is Layer.TENANT:
            (tenant_id,) = owner
            places += [_assignment(tenant_id), ("plan", self._plan_of.get(tenant_id, ""))]
        return places

    def _note(self, places: Iterable[Place], now_ms: int) -> None:
        self._changed_ms.update(dict.fromkeys(places, now_ms))
        if len(self._changed_ms) > _MOST_CHANGES:
            self._changed_ms.clear()
            self._first_ms = now_ms


def _assignment(tenant_id: str) -> Place:
    return ("plan of", tenant_id)


def _changed(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    return {key for key, _ in before.items() ^ after.items()}
