"""Who loses the KV cache when memory runs out."""

from collections.abc import Sequence
from fractions import Fraction

from weir_sim.fleet.sequence import SimSequence


def choose_victim(running: Sequence[SimSequence]) -> SimSequence | None:
    """The sequence to pre-empt: of the tenant most over its weighted share, the newest.

    As in the product's worker: a tenant's share is the blocks that its sequences hold, by its
    weight; within it a lower priority goes first; the oldest of all is never picked. None when
    there is no other. O(running).
    """
    oldest = min(running, key=lambda sequence: sequence.age, default=None)
    held: dict[str, int] = {}
    for sequence in running:
        held[sequence.tenant] = held.get(sequence.tenant, 0) + sequence.blocks
    return max(
        (sequence for sequence in running if sequence is not oldest),
        key=lambda s: (
            Fraction(held[s.tenant], s.weight),
            s.tenant,
            -s.request.priority,
            s.age,
        ),
        default=None,
    )
