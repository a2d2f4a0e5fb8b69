"""Canary and A/B weights: shares, stickiness, and what a changed weight moves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.directory.v1.directory_pb2 import Model, ModelVersion, VersionStickiness
from weir_gateway.intake.version_choice import drawn_versions, sticky_key

KEYS = [f"tenant-{number}" for number in range(800)]


def model_of(weights: dict[str, int], stickiness: int = 0) -> Model:
    versions = [ModelVersion(version=name, weight=weight) for name, weight in weights.items()]
    return Model(name="m", versions=versions, version_stickiness=stickiness)  # type: ignore[arg-type]


def drawn(weights: dict[str, int]) -> dict[str, str]:
    model = model_of(weights)
    return {key: drawn_versions(model, key)[0].version for key in KEYS}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 1_000), min_size=2),
    st.integers(0, 1_000),
)
@settings(max_examples=15, deadline=None)
def test_a_changed_weight_moves_keys_only_to_or_from_that_version(
    weights: dict[str, int], changed: int
) -> None:
    name = min(weights)
    before, after = drawn(weights), drawn(weights | {name: changed})
    moved = [key for key in KEYS if before[key] != after[key]]
    assert all(name in (before[key], after[key]) for key in moved)
    if changed >= weights[name]:
        assert all(after[key] == name for key in moved)
    else:
        assert all(before[key] == name for key in moved)
    total = sum(weights.values())
    share = weights[name] / total
    new_share = changed / max(1, total - weights[name] + changed)
    assert len(moved) <= (abs(new_share - share) + 0.07) * len(KEYS)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 1_000), min_size=2))
@settings(max_examples=15, deadline=None)
def test_each_version_has_its_share(weights: dict[str, int]) -> None:
    versions = list(drawn(weights).values())
    total = sum(weights.values())
    for name, weight in weights.items():
        assert abs(versions.count(name) / len(KEYS) - weight / total) < 0.08


def test_the_order_of_a_key_names_every_other_version_once() -> None:
    model = model_of({"a": 90, "b": 9, "c": 1, "off": 0})
    for key in KEYS[:50]:
        assert sorted(v.version for v in drawn_versions(model, key)) == ["a", "b", "c"]


def test_the_one_that_falls_out_hands_its_keys_to_their_second() -> None:
    """So a fallback is where the key would be if its version were taken out."""
    whole, rest = model_of({"a": 50, "b": 30, "c": 20}), model_of({"a": 50, "b": 0, "c": 20})
    for key in KEYS[:300]:
        order = [v.version for v in drawn_versions(whole, key)]
        assert drawn_versions(rest, key)[0].version == next(v for v in order if v != "b")


@pytest.mark.parametrize(
    ("stickiness", "same_session", "same_tenant"),
    [
        (VersionStickiness.VERSION_STICKINESS_UNSPECIFIED, True, True),
        (VersionStickiness.VERSION_STICKINESS_TENANT, True, True),
        (VersionStickiness.VERSION_STICKINESS_SESSION, True, False),
        (VersionStickiness.VERSION_STICKINESS_NONE, False, False),
    ],
)
def test_who_shares_a_version(stickiness: int, same_session: bool, same_tenant: bool) -> None:
    model = model_of({"a": 1}, stickiness)
    key = sticky_key(model, "t", "chat-1")
    assert (sticky_key(model, "t", "chat-1") == key) is same_session
    assert (sticky_key(model, "t", "chat-2") == key) is same_tenant
    assert sticky_key(model, "other", "chat-1") != key, "never across tenants"


def test_requests_without_session_are_drawn_alone_where_sessions_stick() -> None:
    model = model_of({"a": 1}, VersionStickiness.VERSION_STICKINESS_SESSION)
    assert sticky_key(model, "t", "") != sticky_key(model, "t", "")
