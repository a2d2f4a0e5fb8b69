"""Sessions whose KV had to leave the device, and waits in the memory of the host."""

from collections.abc import Sequence
from typing import Protocol

from weir_worker.kv.cold_kv import ColdKv
from weir_worker.kv.session import Session
from weir_worker.kv.share_heap import ShareHeap
from weir_worker.kv.tenant_account import TenantAccount


class KvStore(Protocol):
    """A fixed number of places for blocks, elsewhere than in the cache."""

    @property
    def free_blocks(self) -> int:
        """Places without a block."""
        ...

    @property
    def total_blocks(self) -> int:
        """All places."""
        ...

    def store(self, blocks: Sequence[int]) -> ColdKv | None:
        """Copy blocks of the cache out; None, and nothing changed, where they do not fit."""
        ...

    def restore(self, cold: ColdKv, first: int, blocks: Sequence[int]) -> None:
        """Copy them, from number `first` on, into these blocks of the cache; they stay here."""
        ...

    def drop(self, cold: ColdKv) -> None:
        """Give their places back; twice is once."""
        ...


class ColdSessions:
    """Moves sessions out and copies them back; whoever is most over its share makes room.

    The share is that of the tenant's weight, as in the cache; among a tenant's own the one
    longest unused goes first.
    """

    def __init__(self, store: KvStore) -> None:
        self._store = store
        self._full = ShareHeap(TenantAccount.is_over_in_host)

    @property
    def blocks(self) -> int:
        """Places that are taken."""
        return self._store.total_blocks - self._store.free_blocks

    @property
    def accounts(self) -> ShareHeap:
        """Tenants with sessions here; whoever changes the weight of one calls its `update`."""
        return self._full

    def take(self, session: Session) -> list[Session] | None:
        """Copy a session's blocks out, whose pins its owner then gives up.

        Returns:
            Sessions that have no copy any more, to make room for it; None, and nothing is
            changed, where it would not fit even so.
        """
        blocks = [block.index for block in session.blocks]
        if len(blocks) > self._store.total_blocks:
            return None
        given_up = []
        while len(blocks) > self._store.free_blocks:
            account = self._full.top()
            assert account is not None, "places are taken, and nobody has them"
            oldest = next(iter(account.cold.values()))
            self.drop(oldest)
            given_up.append(oldest)
        session.cold = self._store.store(blocks)
        assert session.cold is not None, "there is room"
        account = session.account
        account.cold[session.scope] = session
        account.host_blocks += len(blocks)
        self._full.add(account)
        self._full.update(account)
        return given_up

    def restore(self, session: Session, first: int, blocks: Sequence[int]) -> None:
        """Copy blocks of a session, from number `first` on, into blocks of the cache."""
        assert session.cold is not None, "the session is not here"
        self._store.restore(session.cold, first, blocks)

    def drop(self, session: Session) -> None:
        """Give up the copy of a session."""
        cold, session.cold = session.cold, None
        assert cold is not None, "the session is not here"
        account = session.account
        del account.cold[session.scope]
        account.host_blocks -= len(cold.slots)
        self._store.drop(cold)
        if account.cold:
            self._full.update(account)
        else:
            self._full.discard(account)
