"""Look-ups, resolution and deltas of the directory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.directory.v1.directory_pb2 import (
    ApiKey,
    Limit,
    Model,
    ModelParameters,
    Plan,
    Policy,
    Snapshot,
    Tenant,
    User,
)
from weir.directory.v1.directory_service_pb2 import Delta
from weir_core.directory import DirectoryIndex


def _index() -> DirectoryIndex:
    return DirectoryIndex(
        Snapshot(
            version=3,
            tenants=[
                Tenant(
                    id="acme",
                    plan_id="pro",
                    limits=[Limit(id="tpm", capacity=5), Limit(id="own", capacity=1)],
                    policy=Policy(weight=3, allowed_models=["m"]),
                    model_parameters=[
                        ModelParameters(max_new_tokens=20, top_k=7),
                        ModelParameters(
                            model="m",
                            max_new_tokens=30,
                            profiles={"gpu": ModelParameters(max_new_tokens=40)},
                        ),
                    ],
                )
            ],
            users=[User(id="u", tenant_id="acme"), User(id="u", tenant_id="other")],
            api_keys=[ApiKey(id="k", tenant_id="acme", hashes=[b"new", b"old"])],
            plans=[
                Plan(
                    id="pro",
                    limits=[Limit(id="tpm", capacity=9), Limit(id="rps", capacity=2)],
                    policy=Policy(weight=1, max_priority=4, allowed_models=["x", "y"]),
                )
            ],
            models=[
                Model(
                    name="m",
                    aliases=["alias"],
                    parameters=ModelParameters(
                        max_new_tokens=10,
                        profiles={"gpu": ModelParameters(top_k=9, batch_wait_ms=1)},
                    ),
                )
            ],
        )
    )


def test_tenant_limits_replace_those_of_the_plan_by_id() -> None:
    limits = {scoped.id: scoped.limit.capacity for scoped in _index().tenant_limits("acme")}
    assert limits == {"tenant:acme/tpm": 5, "tenant:acme/rps": 2, "tenant:acme/own": 1}


def test_policy_of_the_tenant_wins_over_the_plan_field_by_field() -> None:
    policy = _index().policy("acme")
    assert (policy.weight, policy.max_priority, list(policy.allowed_models)) == (3, 4, ["m"])


@pytest.mark.parametrize(
    ("tenant", "profile", "expected"),
    [
        ("", "", (10, 0, 5)),
        ("acme", "", (30, 7, 5)),
        ("acme", "gpu", (40, 9, 1)),
        ("unknown", "gpu", (10, 9, 1)),
    ],
)
def test_parameters_resolve_model_then_tenant_then_profile(
    tenant: str, profile: str, expected: tuple[int, int, int]
) -> None:
    resolved = _index().parameters("m", tenant, profile)
    assert (resolved.max_new_tokens, resolved.top_k, resolved.batch_wait_ms) == expected


def test_look_ups_by_alias_hash_and_scoped_user() -> None:
    index = _index()
    assert index.model("alias") is index.model("m")
    old, new = index.key_by_hash(b"old"), index.key_by_hash(b"new")
    assert old is new
    assert old is not None
    mine, theirs = index.user("acme", "u"), index.user("other", "u")
    assert mine is not None
    assert theirs is not None
    assert mine.tenant_id != theirs.tenant_id
    assert index.tenant("nobody") is None


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_a_delta_puts_and_removes_by_id(before: set[str], after: set[str]) -> None:
    base = Snapshot(version=1, tenants=[Tenant(id=name, name="old") for name in sorted(before)])
    delta = Delta(
        base_version=1,
        changed=Snapshot(version=2, tenants=[Tenant(id=name) for name in sorted(after)]),
        removed_tenants=sorted(before - after),
    )
    result = DirectoryIndex(base).changed_by(delta).snapshot
    assert {tenant.id: tenant.name for tenant in result.tenants} == dict.fromkeys(after, "")
    assert result.version == 2


def test_a_delta_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 4, not 1"):
        DirectoryIndex(Snapshot(version=1)).changed_by(Delta(base_version=4))


def test_limits_of_users_whose_names_hold_slashes_stay_apart() -> None:
    limits = [Limit(id="tpm", capacity=1)]
    index = DirectoryIndex(
        Snapshot(
            users=[
                User(id="b/c", tenant_id="a", limits=limits),
                User(id="c", tenant_id="a/b", limits=limits),
            ]
        )
    )
    first, second = index.user_limits("a", "b/c"), index.user_limits("a/b", "c")
    assert first[0].id != second[0].id
