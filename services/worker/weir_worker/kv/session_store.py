"""Sessions: pinned KV between the turns of a conversation."""

import heapq
import itertools

from weir_worker.kv.block import Block
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.cold_sessions import ColdSessions, KvStore
from weir_worker.kv.session import Session
from weir_worker.kv.tenant_account import TenantAccount


class SessionStore:
    """Keeps the last committed turn of each session, found by tenant and scope alone.

    What has to give up its blocks goes to `host`, if there is such a store, else it is lost.

    Attributes:
        cold: sessions there; None without a store.
    """

    def __init__(self, pool: BlockPool, host: KvStore | None = None) -> None:
        self._pool = pool
        self.cold = None if host is None else ColdSessions(host)
        self._now_us = 0
        self._live = 0
        self._serial = itertools.count()
        # One entry for each session, no later than its end.
        self._expiry: list[tuple[int, int, Session]] = []

    def find(self, account: TenantAccount, scope: str) -> Session | None:
        """The session, if it is kept; its idle life begins anew."""
        session = _kept(account, scope)
        if session is not None:
            kind = account.sessions if session.cold is None else account.cold
            kind.move_to_end(scope)
            session.expires_us = self._now_us + session.ttl_us
        return session

    def commit(
        self,
        account: TenantAccount,
        scope: str,
        token_ids: list[int],
        blocks: list[Block],
        ttl_us: int,
    ) -> None:
        """Keep a turn in place of the one before. Its blocks are held by its sequence."""
        for block in blocks:
            self._pool.pin(block)
        session = _kept(account, scope)
        if session is not None and session.ttl_us == ttl_us and session.cold is None:
            before, session.blocks, session.token_ids = session.blocks, blocks, token_ids
            self._unpin(before)
            self.find(account, scope)
            return
        if session is not None:
            self._drop(session)
        session = Session(account, scope, token_ids, blocks, ttl_us)
        session.expires_us = self._now_us + ttl_us
        account.sessions[scope] = session
        self._live += 1
        self._pool.yielding.add(account)
        self._expect(session)

    def reorder(self, account: TenantAccount) -> None:
        """Note that a tenant's weight may be another."""
        if self.cold is not None:
            self.cold.accounts.update(account)

    def release(self, account: TenantAccount, scope: str) -> bool:
        """Give up a session; False when none is kept."""
        session = _kept(account, scope)
        if session is None:
            return False
        self._drop(session)
        self._pool.forget(account)
        return True

    def unpin_oldest(self, account: TenantAccount) -> bool:
        """Take the blocks of a tenant's longest unused session; False when none has any."""
        session = next(iter(account.sessions.values()), None)
        if session is None:
            return False
        if not self._cool(session):
            self._drop(session)
        self._pool.forget(account)
        return True

    def yield_one(self) -> bool:
        """Take the blocks of a session of the tenant most over its share; False: there is none."""
        account = self._pool.yielding.top()
        return account is not None and self.unpin_oldest(account)

    def advance(self, now_us: int) -> None:
        """Set the time (monotonic) and end sessions that were idle for too long."""
        self._now_us = now_us
        while self._expiry and self._expiry[0][0] <= now_us:
            _, _, session = heapq.heappop(self._expiry)
            if session.dropped:
                continue
            if session.expires_us <= now_us:
                self.release(session.account, session.scope)
            else:
                self._expect(session)

    def _expect(self, session: Session) -> None:
        heapq.heappush(self._expiry, (session.expires_us, next(self._serial), session))
        if len(self._expiry) > 64 + 2 * self._live:
            self._expiry = [entry for entry in self._expiry if not entry[2].dropped]
            heapq.heapify(self._expiry)

    def _cool(self, session: Session) -> bool:
        """Move a session to the host; False, and nothing is changed, where it has no place."""
        given_up = None if self.cold is None else self.cold.take(session)
        if given_up is None:
            return False
        for other in given_up:
            self._end(other)
            self._pool.forget(other.account)
        self._take_blocks(session)
        return True

    def _drop(self, session: Session) -> None:
        if session.cold is None:
            self._take_blocks(session)
        elif self.cold is not None:
            self.cold.drop(session)
        self._end(session)

    def _end(self, session: Session) -> None:
        session.dropped = True
        session.token_ids = []
        self._live -= 1

    def _take_blocks(self, session: Session) -> None:
        account = session.account
        del account.sessions[session.scope]
        if not account.sessions:
            self._pool.yielding.discard(account)
        blocks, session.blocks = session.blocks, []
        self._unpin(blocks)

    def _unpin(self, blocks: list[Block]) -> None:
        """The last block first, so that a chain is evicted from its end."""
        for block in reversed(blocks):
            self._pool.unpin(block)


def _kept(account: TenantAccount, scope: str) -> Session | None:
    return account.sessions.get(scope) or account.cold.get(scope)
