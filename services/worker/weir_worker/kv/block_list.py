"""Doubly linked list of blocks, threaded through the blocks themselves."""

from collections.abc import Iterable, Iterator

from weir_worker.kv.block import Block


class BlockList:
    """Order of reuse, first to last. A block is in one list at most.

    Every operation is O(1), removal from the middle (a cache hit) included.
    """

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._head = Block(-1)
        self._tail = Block(-1)
        self._head.next = self._tail
        self._tail.prev = self._head
        self._length = 0
        for block in blocks:
            self.append(block)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Block]:
        block = self._head.next
        while block is not None and block is not self._tail:
            yield block
            block = block.next

    def append(self, block: Block) -> None:
        """Put last: reused after all others."""
        assert self._tail.prev is not None
        self._link(self._tail.prev, block, self._tail)

    def prepend(self, block: Block) -> None:
        """Put first: reused next, while its memory is still in the processor's cache."""
        assert self._head.next is not None
        self._link(self._head, block, self._head.next)

    def first(self) -> Block | None:
        """Whoever is reused next; None when the list is empty."""
        block = self._head.next
        return None if block is self._tail else block

    def pop_first(self) -> Block:
        """Take the first block. Raises IndexError when there is none."""
        block = self.first()
        if block is None:
            raise IndexError("the list of KV blocks is empty")
        self.remove(block)
        return block

    def remove(self, block: Block) -> None:
        """Take out a block of this list."""
        before, after = block.prev, block.next
        assert before is not None
        assert after is not None
        before.next, after.prev = after, before
        block.prev = block.next = None
        self._length -= 1

    def _link(self, before: Block, block: Block, after: Block) -> None:
        assert block.prev is None, "block is in a list already"
        before.next = after.prev = block
        block.prev, block.next = before, after
        self._length += 1
