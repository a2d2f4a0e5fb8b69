"""A tenant's own part of the KV blocks of a worker."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.worker.v1.worker_service_pb2 import KvMap

if TYPE_CHECKING:
    from weir.worker.v1.worker_service_pb2 import KvBlockState

_Runs = Counter[tuple["KvBlockState.ValueType", int]]


def own_blocks(blocks: KvMap, tenant_id: str) -> KvMap:
    """The tenant's blocks alone, by state: their places would tell how full the rest is."""
    own = KvMap(
        time=blocks.time,
        known=blocks.known,
        why=blocks.why,
        block_size=blocks.block_size,
        tenants=[tenant_id],
    )
    number = [*blocks.tenants].index(tenant_id) + 1 if tenant_id in blocks.tenants else -1
    found: _Runs = Counter()
    for length, state, owner, held_by in zip(
        blocks.lengths, blocks.states, blocks.owners, blocks.references, strict=True
    ):
        if owner == number:
            found[state, held_by] += length
    _add_runs(own, found)
    return own


def added_blocks(parts: Sequence[KvMap]) -> KvMap:
    """The own parts of a map that came in several, as one."""
    whole = KvMap()
    whole.CopyFrom(parts[0])
    for field in ("lengths", "states", "owners", "references"):
        whole.ClearField(field)
    found: _Runs = Counter()
    for part in parts:
        for length, state, held_by in zip(part.lengths, part.states, part.references, strict=True):
            found[state, held_by] += length
    _add_runs(whole, found)
    return whole


def _add_runs(own: KvMap, found: _Runs) -> None:
    for (state, held_by), length in sorted(found.items()):
        own.lengths.append(length)
        own.states.append(state)
        own.owners.append(1)
        own.references.append(held_by)
    own.total_blocks = sum(own.lengths)
