import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_core.prefix_hash import (
    PrefixNamespace,
    block_hash,
    change_namespace,
    prefix_hashes,
)

tokens = st.lists(st.integers(0, 2**32 - 1), max_size=40)
names = st.text(max_size=5)


@given(names, names, st.binary(max_size=4), names, names, names, st.binary(max_size=4), names)
def test_roots_differ_unless_every_field_is_equal(
    t1: str, m1: str, f1: bytes, s1: str, t2: str, m2: str, f2: bytes, s2: str
) -> None:
    first, second = PrefixNamespace(t1, m1, f1, s1), PrefixNamespace(t2, m2, f2, s2)
    assert (first.root() == second.root()) == (first == second)


def test_fields_do_not_run_into_each_other() -> None:
    assert PrefixNamespace("ab", "c").root() != PrefixNamespace("a", "bc").root()


@given(tokens, tokens, st.integers(1, 8))
def test_equal_hashes_mean_equal_prefixes(a: list[int], b: list[int], granularity: int) -> None:
    root = PrefixNamespace("acme", "m").root()
    first, second = prefix_hashes(root, a, granularity), prefix_hashes(root, b, granularity)
    assert len(first) == len(a) // granularity
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        end = (index + 1) * granularity
        assert (left == right) == (a[:end] == b[:end])


def test_hashes_are_the_same_on_every_machine() -> None:
    root = PrefixNamespace("acme", "m@1", b"\x01\x02").root()
    assert root.hex().startswith("25f7324292021549")
    assert block_hash(root, [1, 2, 3]).hex().startswith("59167b6846f7d46b")


def test_another_scope_is_another_chain() -> None:
    tenant = PrefixNamespace("acme", "m").root()
    parent = block_hash(tenant, [1, 2])
    scopes = [PrefixNamespace("acme", "m", scope=s).root() for s in ("session:a", "session:b")]
    changed = {change_namespace(root, parent) for root in scopes}
    assert len(changed | {parent}) == 3


@pytest.mark.parametrize("token", [-1, 2**32])
def test_what_is_no_token_id_is_refused(token: int) -> None:
    with pytest.raises(OverflowError):
        block_hash(b"", [token])
