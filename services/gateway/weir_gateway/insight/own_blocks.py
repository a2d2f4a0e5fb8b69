"""A tenant's own part of the KV blocks of a worker."""

from collections import Counter

from weir.worker.v1.worker_service_pb2 import KvBlockState, KvMap


def own_blocks(blocks: KvMap, tenant_id: str) -> KvMap:
    """The tenant's blocks alone, by state: their places would tell how full the rest is."""
    own = KvMap(
        time=blocks.time,
        known=blocks.known,
        why=blocks.why,
        block_size=blocks.block_size,
        tenants=[tenant_id],
        next_block=blocks.next_block,
    )
    number = [*blocks.tenants].index(tenant_id) + 1 if tenant_id in blocks.tenants else -1
    found: Counter[tuple[KvBlockState.ValueType, int]] = Counter()
    for length, state, owner, held_by in zip(
        blocks.lengths, blocks.states, blocks.owners, blocks.references, strict=True
    ):
        if owner == number:
            found[state, held_by] += length
    for (state, held_by), length in sorted(found.items()):
        own.lengths.append(length)
        own.states.append(state)
        own.owners.append(1)
        own.references.append(held_by)
    own.total_blocks = sum(own.lengths)
    return own
