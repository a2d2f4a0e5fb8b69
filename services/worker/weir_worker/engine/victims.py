"""Who loses the KV cache when memory runs out."""

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf

from weir_worker.engine.sequence import Sequence


def choose_victim(
    running: SequenceOf[Sequence], held_by_tenant: Mapping[str, int]
) -> Sequence | None:
    """Pick the sequence to pre-empt: of the tenant most over its share, the newest.

    Shares are equal, so the tenant most over its share is the one that holds most blocks.
    Within it a lower priority goes first. The oldest of all is never picked, so that at
    least one sequence always advances; None when there is no other.
    """
    oldest = min(running, key=lambda sequence: sequence.age, default=None)
    candidates = [sequence for sequence in running if sequence is not oldest]
    if not candidates:
        return None
    return max(candidates, key=lambda s: (held_by_tenant[s.tenant], s.tenant, -s.priority, s.age))
