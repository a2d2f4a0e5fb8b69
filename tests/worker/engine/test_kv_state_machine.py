"""The KV manager against a model of it: what may be found, and where each block is."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from weir_core.prefix_hash import PrefixNamespace
from weir_worker.kv import (
    BlockTable,
    KvManager,
    KvPolicy,
    PrefixScopes,
    Shortage,
    check_integrity,
)

BLOCKS, SIZE = 7, 2
GRANULARITY = 3
CACHE_TTL_US = 40
SESSION_TTL_US = 25
QUOTAS = {"a": 0, "b": 8}
WEIGHTS = {"a": 3, "b": 1}

Key = tuple[object, ...]


class Request:
    """A sequence as the engine would treat it."""

    def __init__(
        self, kv: KvManager, tenant: str, session: str, name: str, tokens: list[int], shared: int
    ) -> None:
        self.tenant, self.session, self.shared = tenant, session, min(shared, len(tokens))
        self.scope = f"session:{session}" if session else f"request:{name}"
        self.tokens = tokens
        self.computed = 0
        namespace = PrefixNamespace(tenant, "m")
        private = PrefixNamespace(tenant, "m", scope=self.scope)
        scopes = PrefixScopes(namespace, private, self.shared, session)
        policy = KvPolicy(max_tokens=QUOTAS[tenant], weight=WEIGHTS[tenant])
        self.table: BlockTable = kv.open_table(tenant, tokens, scopes, policy)

    def keys(self, upto: int) -> list[Key]:
        """What identifies each token of the first `upto` to a finder."""
        keys: list[Key] = []
        for end in range(1, upto + 1):
            block_end = -(-end // SIZE) * SIZE
            scope = None if block_end <= self.shared else self.scope
            keys.append((self.tenant, scope, tuple(self.tokens[:end])))
        return keys


class KvMachine(RuleBasedStateMachine):
    """Requests come, compute, grow, are pre-empted, aborted and discarded; sessions go on."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.kv = KvManager(
            BLOCKS, SIZE, cache_ttl_us=CACHE_TTL_US, verify_tokens=True, granularity=GRANULARITY
        )
        self.live: list[Request] = []
        self.ever_computed: set[Key] = set()
        self.told: set[bytes] = set()
        self.now_us = 0
        self.serial = 0

    @rule(
        target=requests,
        tenant=st.sampled_from(["a", "b"]),
        session=st.sampled_from(["", "s", "t"]),
        length=st.integers(1, 9),
        last=st.integers(0, 1),
        shared=st.integers(0, 9),
        keep=st.integers(0, 2),
    )
    def submit(
        self, tenant: str, session: str, length: int, last: int, shared: int, keep: int
    ) -> Request:
        # Mostly equal tokens, so that hits are the rule.
        self.serial += 1
        tokens = [0] * (length - 1) + [last]
        request = Request(self.kv, tenant, session, f"r{self.serial}", tokens, shared)
        self.live.append(request)
        self._admit(request, keep)
        return request

    @rule(request=requests, chunk=st.integers(1, 5))
    def compute(self, request: Request, chunk: int) -> None:
        if not request.table.blocks:
            return
        request.computed = min(len(request.tokens), request.computed + chunk)
        self.kv.commit(request.table, request.computed)
        self.ever_computed.update(request.keys(request.computed))

    @rule(request=requests, token=st.integers(0, 1))
    def decode(self, request: Request, token: int) -> None:
        if not request.table.blocks or request.computed < len(request.tokens):
            return
        if request.table.capacity() == len(request.tokens):
            if not self.kv.available_blocks or request.table.exceeds_quota(1):
                return
            self.kv.grow(request.table)
        request.tokens.append(token)

    @rule(request=requests)
    def preempt(self, request: Request) -> None:
        self.kv.release(request.table)
        request.computed = 0

    @rule(request=requests, keep=st.integers(0, 2))
    def resume(self, request: Request, keep: int) -> None:
        if not request.table.blocks:
            self._admit(request, keep)

    @rule(
        request=consumes(requests),
        twice=st.booleans(),
        discard=st.booleans(),
        kept=st.booleans(),
        ttl=st.sampled_from([5, SESSION_TTL_US]),
    )
    def finish(self, request: Request, twice: bool, discard: bool, kept: bool, ttl: int) -> None:
        if kept and request.session and request.table.blocks and request.computed:
            self.kv.keep_turn(request.table, request.computed, ttl)
            discard = False
        freed = self.kv.close(request.table, discard=discard)
        assert len(freed) == len(set(freed))
        if twice:
            assert self.kv.close(request.table, discard=discard) == []
        self.live.remove(request)

    @rule(tenant=st.sampled_from(["a", "b", "nobody"]), session=st.sampled_from(["s", "t"]))
    def release_session(self, tenant: str, session: str) -> None:
        self.kv.release_session(tenant, session)
        assert not self.kv.release_session(tenant, session), "a second time does nothing"

    @rule(passed_us=st.integers(1, 30))
    def wait(self, passed_us: int) -> None:
        self.now_us += passed_us
        self.kv.advance(self.now_us)
        for account in self.kv.accounts():
            for block in account.cached:
                assert block.parked_us > self.now_us - CACHE_TTL_US
            for session in account.sessions.values():
                assert session.expires_us > self.now_us

    @invariant()
    def the_books_balance(self) -> None:
        check_integrity(self.kv, [request.table for request in self.live])
        kv = self.kv
        assert kv.free_blocks + kv.cached_blocks + kv.held_blocks == kv.total_blocks == BLOCKS
        assert min(kv.free_blocks, kv.cached_blocks, kv.held_blocks) >= 0
        assert kv.pinned_blocks <= kv.held_blocks

    @invariant()
    def no_block_is_held_by_two_tenants(self) -> None:
        owners: dict[int, str] = {}
        for request in self.live:
            for index in request.table.indices:
                assert owners.setdefault(index, request.tenant) == request.tenant

    @invariant()
    def quotas_hold(self) -> None:
        for account in self.kv.accounts():
            quota = QUOTAS[account.tenant]
            assert not quota or account.running <= quota // SIZE

    @invariant()
    def events_tell_what_can_be_found(self) -> None:
        added, removed = self.kv.events.take()
        assert not set(added) & self.told
        assert set(removed) <= self.told
        self.told |= set(added)
        self.told -= set(removed)
        findable = {g for block in self.kv.pool.blocks for g in block.granules}
        assert self.told == findable

    def _admit(self, request: Request, keep: int) -> None:
        kv = self.kv
        before = kv.available_blocks, kv.counters.evictions, kv.cached_blocks
        hit = kv.allocate(request.table, len(request.tokens), keep_available=keep)
        if isinstance(hit, Shortage):
            assert not request.table.blocks
            assert (kv.available_blocks, kv.counters.evictions, kv.cached_blocks) == before
            assert hit is Shortage.MEMORY or QUOTAS[request.tenant]
            return
        assert hit <= len(request.tokens) - 1
        for key in request.keys(hit):
            tenant, _, tokens = key
            # What a session has kept it finds by its tokens, whoever else may find them.
            own = {(tenant, None, tokens), (tenant, request.scope, tokens)}
            mine = own if request.session else {key}
            assert mine & self.ever_computed, "a hit on what was never computed"
        assert kv.available_blocks >= keep
        assert request.table.capacity() >= len(request.tokens)
        quota = QUOTAS[request.tenant] // SIZE
        assert not quota or request.table.account.held <= quota, "pins yield to the quota"
        request.computed = hit


KvMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestKvMachine = KvMachine.TestCase
