import pytest

from weir_core.prefix_hash import PrefixNamespace
from weir_worker.kv import (
    BlockTable,
    IntegrityError,
    KvManager,
    KvPolicy,
    PrefixScopes,
    Shortage,
    check_integrity,
)


def scopes(
    tenant: str = "acme", tenant_tokens: int = 0, scope: str = "request:r", session: str = ""
) -> PrefixScopes:
    return PrefixScopes(
        tenant=PrefixNamespace(tenant, "m"),
        private=PrefixNamespace(tenant, "m", scope=scope),
        tenant_tokens=tenant_tokens,
        session=session,
    )


def opened(
    kv: KvManager, tokens: list[int], which: PrefixScopes, policy: KvPolicy | None = None
) -> BlockTable:
    return kv.open_table(which.tenant.tenant, tokens, which, policy or KvPolicy())


def filled(
    kv: KvManager, tokens: list[int], which: PrefixScopes, policy: KvPolicy | None = None
) -> BlockTable:
    """A table all of whose tokens are computed."""
    table = opened(kv, tokens, which, policy)
    assert isinstance(kv.allocate(table, len(tokens)), int)
    kv.commit(table, len(tokens))
    return table


def test_block_is_found_only_once_its_kv_is_written() -> None:
    kv = KvManager(16, 4)
    tokens = list(range(12))
    shared = scopes(tenant_tokens=12)
    first = opened(kv, tokens, shared)
    assert kv.allocate(first, 12) == 0
    early = opened(kv, tokens, shared)
    assert kv.allocate(early, 12) == 0, "nothing is computed yet"
    kv.commit(first, 7)
    late = opened(kv, tokens, shared)
    assert kv.allocate(late, 12) == 4, "only the first block is full"
    assert late.indices[0] == first.indices[0]
    check_integrity(kv, [first, early, late])


@pytest.mark.parametrize(("length", "hit"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (12, 8)])
def test_hits_stop_before_the_last_token(length: int, hit: int) -> None:
    kv = KvManager(16, 4)
    filled(kv, list(range(12)), scopes(tenant_tokens=12))
    table = opened(kv, list(range(length)), scopes(tenant_tokens=length))
    assert kv.allocate(table, length) == hit


def test_refused_allocation_changes_nothing() -> None:
    kv = KvManager(4, 4)
    holder = filled(kv, list(range(8)), scopes(tenant_tokens=8))
    kv.release(holder)
    other = filled(kv, list(range(50, 62)), scopes(tenant_tokens=12))
    before = [block.index for block in kv.pool.free], kv.cached_blocks, kv.counters.prefix_queries
    table = opened(kv, list(range(16)), scopes(tenant_tokens=16))
    assert kv.allocate(table, 16) is Shortage.MEMORY
    assert before == ([b.index for b in kv.pool.free], kv.cached_blocks, kv.counters.prefix_queries)
    assert not table.blocks
    assert not table.indices
    check_integrity(kv, [other, table])


def test_a_hit_that_is_also_the_last_free_block_is_not_counted_twice() -> None:
    kv = KvManager(2, 4)
    kv.release(filled(kv, list(range(4)), scopes(tenant_tokens=4)))
    table = opened(kv, list(range(9)), scopes(tenant_tokens=9))
    assert kv.allocate(table, 9) is Shortage.MEMORY, "1 hit + 2 fresh blocks of 2"
    smaller = opened(kv, list(range(8)), scopes(tenant_tokens=8))
    assert kv.allocate(smaller, 8) == 4
    check_integrity(kv, [table, smaller])


def test_watermark_is_left_free() -> None:
    kv = KvManager(4, 4)
    table = opened(kv, list(range(12)), scopes())
    assert kv.allocate(table, 12, keep_available=2) is Shortage.MEMORY
    assert kv.allocate(table, 12, keep_available=1) == 0


def test_other_tenant_never_hits() -> None:
    kv = KvManager(16, 4)
    filled(kv, list(range(12)), scopes("acme", tenant_tokens=12))
    table = opened(kv, list(range(12)), scopes("globex", tenant_tokens=12))
    assert kv.allocate(table, 12) == 0
    assert {a.tenant: a.running for a in kv.accounts()} == {"acme": 3, "globex": 3}


@pytest.mark.parametrize(("declared", "hit"), [(0, 0), (3, 0), (4, 4), (7, 4), (8, 8), (12, 8)])
def test_prefix_is_shared_up_to_the_first_block_with_a_private_token(
    declared: int, hit: int
) -> None:
    kv = KvManager(16, 4)
    filled(kv, list(range(12)), scopes(tenant_tokens=declared, scope="request:a"))
    table = opened(kv, list(range(12)), scopes(tenant_tokens=declared, scope="request:b"))
    assert kv.allocate(table, 12) == hit


def test_declaring_more_later_does_not_uncover_private_blocks() -> None:
    kv = KvManager(16, 4)
    filled(kv, list(range(12)), scopes(tenant_tokens=4, scope="request:a"))
    table = opened(kv, list(range(12)), scopes(tenant_tokens=12, scope="request:b"))
    assert kv.allocate(table, 12) == 4


def test_session_finds_its_own_private_blocks() -> None:
    kv = KvManager(16, 4)
    own = scopes(tenant_tokens=4, scope="session:s", session="s")
    kv.release(filled(kv, list(range(12)), own))
    again = opened(kv, list(range(14)), own)
    assert kv.allocate(again, 14) == 12
    counters = kv.counters
    assert (counters.prefix_queries, counters.prefix_hits) == (8, 4)
    assert (counters.session_queries, counters.session_hits) == (7 + 9, 8)


def test_release_is_idempotent_and_frees_from_the_end() -> None:
    kv = KvManager(4, 4)
    table = filled(kv, list(range(12)), scopes(tenant_tokens=12))
    order = list(reversed(table.indices))
    assert kv.release(table) == order
    assert kv.release(table) == []
    (account,) = kv.accounts()
    assert [block.index for block in account.cached] == order
    check_integrity(kv, [table])


def test_cached_blocks_are_evicted_oldest_first_and_from_the_end_of_a_chain() -> None:
    kv = KvManager(4, 4)
    old = filled(kv, list(range(8)), scopes(tenant_tokens=8))
    young = filled(kv, list(range(50, 58)), scopes(tenant_tokens=8))
    kv.release(old)
    kv.release(young)
    table = opened(kv, list(range(90, 102)), scopes())
    assert kv.allocate(table, 12) == 0
    assert kv.counters.evictions == 3
    kv.release(table)
    survivor = opened(kv, list(range(50, 58)), scopes(tenant_tokens=8))
    assert kv.allocate(survivor, 8) == 4, "the head of the younger chain lived longest"


def test_used_blocks_become_young_again() -> None:
    kv = KvManager(4, 4)
    kv.release(filled(kv, list(range(5)), scopes(tenant_tokens=5)))
    kv.release(filled(kv, list(range(50, 55)), scopes(tenant_tokens=5)))
    touched = opened(kv, list(range(5)), scopes(tenant_tokens=5))
    assert kv.allocate(touched, 5) == 4
    kv.release(touched)
    table = opened(kv, list(range(90, 102)), scopes())
    assert kv.allocate(table, 12) == 0
    kv.release(table)
    again = opened(kv, list(range(5)), scopes(tenant_tokens=5))
    assert kv.allocate(again, 5) == 4


def test_shared_block_survives_the_release_of_one_holder() -> None:
    kv = KvManager(8, 4)
    first = filled(kv, list(range(8)), scopes(tenant_tokens=8))
    second = opened(kv, list(range(8)), scopes(tenant_tokens=8))
    kv.allocate(second, 8)
    assert first.indices[0] not in kv.release(first)
    assert kv.held_blocks == 2
    check_integrity(kv, [first, second])


def test_discarded_blocks_are_found_by_nobody() -> None:
    kv = KvManager(8, 4)
    shared = scopes(tenant_tokens=8)
    first = filled(kv, list(range(8)), shared)
    second = opened(kv, list(range(8)), shared)
    kv.allocate(second, 8)
    kv.release(first, discard=True)
    third = opened(kv, list(range(8)), shared)
    assert kv.allocate(third, 8) == 0
    check_integrity(kv, [first, second, third])
    kv.release(second)
    kv.release(third)
    check_integrity(kv, [])


def test_twin_computed_at_the_same_time_is_freed_without_content() -> None:
    kv = KvManager(8, 4)
    shared = scopes(tenant_tokens=4)
    tables = [opened(kv, list(range(4)), shared) for _ in range(2)]
    for table in tables:
        kv.allocate(table, 4)
    for table in tables:
        kv.commit(table, 4)
        check_integrity(kv, tables)
    for table in tables:
        kv.release(table)
    assert (kv.cached_blocks, kv.free_blocks) == (1, 7)


def test_integrity_check_sees_a_leak() -> None:
    kv = KvManager(4, 4)
    table = filled(kv, list(range(8)), scopes())
    with pytest.raises(IntegrityError, match="references of block"):
        check_integrity(kv, [])
    check_integrity(kv, [table])
    kv.pool.cached += 1
    with pytest.raises(IntegrityError, match="cached"):
        check_integrity(kv, [table])


def test_debug_mode_sees_a_block_with_other_tokens() -> None:
    kv = KvManager(4, 4, verify_tokens=True)
    filled(kv, list(range(5)), scopes(tenant_tokens=5))
    key = next(iter(kv.pool.published))
    kv.pool.tokens = {key: (9, 9, 9, 9)}
    with pytest.raises(AssertionError, match="other tokens"):
        kv.allocate(opened(kv, list(range(5)), scopes(tenant_tokens=5)), 5)


def test_the_head_of_the_free_list_is_what_was_freed_last_without_content() -> None:
    kv = KvManager(4, 4)
    table = opened(kv, [1], scopes())
    kv.allocate(table, 1)
    index = table.indices[0]
    kv.release(table)
    again = opened(kv, [2], scopes())
    kv.allocate(again, 1)
    assert again.indices == [index]


def test_tenants_that_came_by_take_no_memory_until_their_blocks_would_be_old() -> None:
    kv = KvManager(4, 4, cache_ttl_us=10**12)
    for index in range(1_000):
        kv.advance(index)
        table = filled(kv, list(range(12)), scopes(tenant=f"t{index}", tenant_tokens=12))
        kv.close(table)
    assert len(list(kv.accounts())) <= 4
    assert len(kv.pool._expiry) <= 100
    kv.advance(2 * 10**12)
    assert kv.free_blocks == 4
    check_integrity(kv, [])
