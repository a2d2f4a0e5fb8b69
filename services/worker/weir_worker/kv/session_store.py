"""Sessions: pinned KV between the turns of a conversation."""

import heapq
import itertools

from weir_worker.kv.block import Block
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.session import Session
from weir_worker.kv.tenant_account import TenantAccount


class SessionStore:
    """Keeps the last committed turn of each session, found by tenant and scope alone."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._now_us = 0
        self._live = 0
        self._serial = itertools.count()
        # One entry for each session, no later than its end.
        self._expiry: list[tuple[int, int, Session]] = []

    def find(self, account: TenantAccount, scope: str) -> Session | None:
        """The session, if it is kept; its idle life begins anew."""
        session = account.sessions.get(scope)
        if session is not None:
            account.sessions.move_to_end(scope)
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
        session = account.sessions.get(scope)
        if session is not None and session.ttl_us == ttl_us:
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

    def release(self, account: TenantAccount, scope: str) -> bool:
        """Give up a session; False when none is kept."""
        session = account.sessions.get(scope)
        if session is None:
            return False
        self._drop(session)
        self._pool.forget(account)
        return True

    def release_oldest(self, account: TenantAccount) -> bool:
        """Give up the longest unused session of a tenant; False when it has none."""
        scope = next(iter(account.sessions), None)
        return scope is not None and self.release(account, scope)

    def yield_one(self) -> bool:
        """Give up a session of the tenant most over its share; False when there is none."""
        account = self._pool.yielding.top()
        return account is not None and self.release_oldest(account)

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

    def _drop(self, session: Session) -> None:
        account = session.account
        del account.sessions[session.scope]
        session.dropped = True
        self._live -= 1
        if not account.sessions:
            self._pool.yielding.discard(account)
        blocks, session.blocks, session.token_ids = session.blocks, [], []
        self._unpin(blocks)

    def _unpin(self, blocks: list[Block]) -> None:
        """The last block first, so that a chain is evicted from its end."""
        for block in reversed(blocks):
            self._pool.unpin(block)
