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
from weir_worker.kv import BlockTable, KvManager, PrefixScopes, check_integrity

BLOCKS, SIZE = 7, 2


class Request:
    """A sequence as the engine would treat it."""

    def __init__(self, kv: KvManager, tenant: str, scope: str, tokens: list[int], shared: int):
        self.tenant, self.scope, self.shared = tenant, scope, min(shared, len(tokens))
        self.tokens = tokens
        self.computed = 0
        namespace = PrefixNamespace(tenant, "m")
        private = PrefixNamespace(tenant, "m", scope=scope)
        scopes = PrefixScopes(namespace, private, self.shared)
        self.table: BlockTable = kv.open_table(tenant, tokens, scopes)

    def keys(self, upto: int) -> list[tuple[object, ...]]:
        """What identifies each full block of the first `upto` tokens to a finder."""
        keys: list[tuple[object, ...]] = []
        for end in range(SIZE, upto + 1, SIZE):
            scope = None if end <= self.shared else self.scope
            boundary = self.shared // SIZE if scope else None
            keys.append((self.tenant, scope, boundary, tuple(self.tokens[:end])))
        return keys


class KvMachine(RuleBasedStateMachine):
    """Requests come, compute, grow, are pre-empted, aborted and discarded."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.kv = KvManager(BLOCKS, SIZE, verify_tokens=True)
        self.live: list[Request] = []
        self.ever_published: set[tuple[object, ...]] = set()

    @rule(
        target=requests,
        tenant=st.sampled_from(["a", "b"]),
        scope=st.sampled_from(["r1", "r2", "s"]),
        length=st.integers(1, 9),
        last=st.integers(0, 1),
        shared=st.integers(0, 9),
        keep=st.integers(0, 2),
    )
    def submit(
        self, tenant: str, scope: str, length: int, last: int, shared: int, keep: int
    ) -> Request:
        # Mostly equal tokens, so that hits are the rule.
        request = Request(self.kv, tenant, scope, [0] * (length - 1) + [last], shared)
        self.live.append(request)
        self._admit(request, keep)
        return request

    @rule(request=requests, chunk=st.integers(1, 5))
    def compute(self, request: Request, chunk: int) -> None:
        if not request.table.blocks:
            return
        request.computed = min(len(request.tokens), request.computed + chunk)
        self.kv.commit(request.table, request.computed)
        self.ever_published.update(request.keys(request.computed))

    @rule(request=requests, token=st.integers(0, 1))
    def decode(self, request: Request, token: int) -> None:
        if not request.table.blocks or request.computed < len(request.tokens):
            return
        if request.table.capacity() == len(request.tokens):
            if not self.kv.available_blocks:
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

    @rule(request=consumes(requests), twice=st.booleans(), discard=st.booleans())
    def finish(self, request: Request, twice: bool, discard: bool) -> None:
        freed = self.kv.release(request.table, discard=discard)
        assert len(freed) == len(set(freed))
        if twice:
            assert self.kv.release(request.table, discard=discard) == []
        self.live.remove(request)

    @invariant()
    def the_books_balance(self) -> None:
        check_integrity(self.kv, [request.table for request in self.live])
        kv = self.kv
        assert kv.free_blocks + kv.cached_blocks + kv.held_blocks == kv.total_blocks == BLOCKS
        assert min(kv.free_blocks, kv.cached_blocks, kv.held_blocks) >= 0

    @invariant()
    def no_block_is_held_by_two_tenants(self) -> None:
        owners: dict[int, str] = {}
        for request in self.live:
            for index in request.table.indices:
                assert owners.setdefault(index, request.tenant) == request.tenant

    def _admit(self, request: Request, keep: int) -> None:
        before = self.kv.available_blocks
        hit = self.kv.allocate(request.table, len(request.tokens), keep_available=keep)
        if hit is None:
            assert not request.table.blocks
            assert self.kv.available_blocks == before
            return
        assert hit <= len(request.tokens) - 1
        assert hit % SIZE == 0
        assert set(request.keys(hit)) <= self.ever_published, "a hit on what was never computed"
        assert self.kv.available_blocks >= keep
        assert request.table.capacity() >= len(request.tokens)
        request.computed = hit


KvMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestKvMachine = KvMachine.TestCase
