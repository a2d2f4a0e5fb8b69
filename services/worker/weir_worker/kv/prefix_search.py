"""What of a prompt is in the cache already."""

from dataclasses import dataclass

from weir_worker.kv.block import Block
from weir_worker.kv.block_chain import BlockChain
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.session import Session


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """Leading blocks that are there.

    Attributes:
        blocks: full ones, then `tail`.
        tokens: whose KV is in them.
        tail: a partly filled block of the session, to be filled on in place.
    """

    blocks: list[Block]
    tokens: int
    tail: Block | None = None


def find_prefix(
    pool: BlockPool, chain: BlockChain, num_tokens: int, session: Session | None
) -> PrefixHit:
    """Find the longest prefix of a sequence's `num_tokens` tokens, at most all but the last.

    Full blocks are found by hash, or in the session by their tokens. The session's last, partly
    filled block is taken on in place when the sequence goes on right behind the session's
    tokens and nobody else has that block; otherwise its tokens are computed again, so that the
    session's last turn stays whole whatever becomes of this one.
    """
    size = chain.block_size
    blocks = _find_by_hash(pool, chain, (num_tokens - 1) // size)
    if session is None or session.cold is not None:
        return PrefixHit(blocks, len(blocks) * size)
    common = session.common(chain.token_ids, size)
    known = min(common, num_tokens - 1) // size
    if known > len(blocks):
        blocks = session.blocks[:known]
    length = len(session.token_ids)
    goes_on = common == length < num_tokens and length % size and len(blocks) == length // size
    if not goes_on:
        return PrefixHit(blocks, len(blocks) * size)
    tail = session.blocks[-1]
    if tail.ref_count or tail.pins > 1:
        return PrefixHit(blocks, len(blocks) * size)
    return PrefixHit([*blocks, tail], length, tail)


def _find_by_hash(pool: BlockPool, chain: BlockChain, limit: int) -> list[Block]:
    blocks: list[Block] = []
    for index in range(limit):
        block = pool.find(chain, index)
        if block is None:
            break
        blocks.append(block)
    return blocks
