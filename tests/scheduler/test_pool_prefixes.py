"""What the caches of a pool hold together, against the sets of its workers."""

from hypothesis import given
from hypothesis import strategies as st

from weir_scheduler.workers.pool_prefixes import PoolPrefixes
from weir_scheduler.workers.prefix_index import PrefixIndex

HASHES = [bytes([number]) for number in range(6)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "clear", "leave", "join"]),
        st.integers(0, 2),
        st.lists(st.sampled_from(HASHES), max_size=4),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_holds_what_some_worker_of_it_holds(steps: list[tuple[str, int, list[bytes]]]) -> None:
    pool = PoolPrefixes()
    indexes = [PrefixIndex(4, f"w{number}") for number in range(3)]
    joined = set(range(3))
    for index in indexes:
        index.join(pool)
    for step, which, hashes in steps:
        index = indexes[which]
        if step == "add":
            index.add(hashes)
        elif step == "remove":
            index.remove(hashes)
        elif step == "clear":
            index.clear()
        else:
            index.join(pool if step == "join" else None)
            (joined.add if step == "join" else joined.discard)(which)
        held = {h for h in HASHES if any(indexes[n].leading([h]) for n in joined)}
        assert {h for h in HASHES if pool.leading([h])} == held
        assert len(pool) == len(held)


def test_what_is_gained_is_read_once_and_in_order() -> None:
    pool = PoolPrefixes()
    for digest in HASHES[:3]:
        pool.add(digest, "w")
    pool.add(HASHES[0], "v")
    first, cursor = pool.gained_since(0, 2)
    second, cursor = pool.gained_since(cursor, 2)
    assert (first, second) == (HASHES[:2], HASHES[2:3])
    pool.remove(HASHES[2], "w")
    pool.add(HASHES[2], "w")
    assert pool.gained_since(cursor, 9) == ([HASHES[2]], cursor + 1)


def test_the_last_token_of_a_prompt_is_never_cached() -> None:
    pool = PoolPrefixes(granularity=64)
    for digest in HASHES[:2]:
        pool.add(digest, "w")
    assert pool.cached_tokens(HASHES, 200) == 128
    assert pool.cached_tokens(HASHES, 128) == 127
    assert pool.cached_tokens([HASHES[5]], 200) == 0
