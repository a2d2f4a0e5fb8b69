"""Who loses the KV cache when memory, or a tenant's quota, runs out."""

from collections.abc import Iterable
from fractions import Fraction

from weir_worker.engine.sequence import Sequence
from weir_worker.kv import BlockTable


def choose_victim(running: Iterable[Sequence]) -> Sequence | None:
    """Pick the sequence to pre-empt: of the tenant most over its weighted share, the newest.

    A tenant's share is measured by the blocks that its sequences hold, by its weight. Within
    it a lower priority goes first. The oldest of all is never picked, so that at least one
    sequence always advances; None when there is no other. O(running).
    """
    candidates = _all_but_the_oldest(list(running))
    if not candidates:
        return None
    return max(candidates, key=lambda s: (_share(s.table), s.tenant, -s.priority, s.age))


def choose_victim_of(tenant: str, running: Iterable[Sequence]) -> Sequence | None:
    """Pick the newest sequence of a tenant that is at its quota; never its oldest. O(running)."""
    candidates = _all_but_the_oldest([s for s in running if s.tenant == tenant])
    return max(candidates, key=lambda s: (-s.priority, s.age), default=None)


def _share(table: BlockTable) -> Fraction:
    return Fraction(table.account.running, table.account.weight)


def _all_but_the_oldest(sequences: list[Sequence]) -> list[Sequence]:
    oldest = min(sequences, key=lambda sequence: sequence.age, default=None)
    return [sequence for sequence in sequences if sequence is not oldest]
