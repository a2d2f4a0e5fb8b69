"""Limits of the directory: layers, overrides, policies, and what is refused."""

import pytest

from tests.ratelimiter.account import ACME, context, directory, limit, parallel, rpm, tpm
from weir.directory.v1 import directory_pb2 as pb
from weir_core.bucket import BucketShape
from weir_core.directory import DirectoryIndex
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.ids import parse_limit_key
from weir_ratelimiter.domain.limit import Kind, Layer
from weir_ratelimiter.domain.subject import Subject


def book(snapshot: pb.Snapshot) -> LimitBook:
    return LimitBook(DirectoryIndex(snapshot))


def test_all_layers_in_their_order() -> None:
    snapshot = directory(
        tpm(4), cluster=[tpm(1)], user=[tpm(3)], key=[tpm(2)], model=[tpm(5)], plan=[parallel(6)]
    )
    found = book(snapshot).resolve(ACME)
    assert [(entry.key, entry.layer) for entry in found.limits] == [
        ("cluster/tpm", Layer.CLUSTER),
        ("tenant:acme/parallel", Layer.TENANT),
        ("tenant:acme/tpm", Layer.TENANT),
        ("user:acme/bob/tpm", Layer.USER),
        ("api_key:key1/tpm", Layer.API_KEY),
        ("model:m/tpm", Layer.MODEL),
    ]
    assert found.limits == found.counted


def test_every_limit_has_a_key_that_names_its_owner() -> None:
    snapshot = directory(
        tpm(4), cluster=[tpm(1)], user=[tpm(3)], key=[tpm(2)], model=[tpm(5)], plan=[parallel(6)]
    )
    snapshot.users[0].id = "b/o%b"
    found = book(snapshot)
    limits = found.resolve(Subject("acme", "b/o%b", "key1", "m")).limits
    assert len({entry.key for entry in limits}) == 6
    assert {parse_limit_key(entry.key) for entry in limits} == {
        ("cluster", (), "tpm"),
        ("tenant", ("acme",), "tpm"),
        ("tenant", ("acme",), "parallel"),
        ("user", ("acme", "b/o%b"), "tpm"),
        ("api_key", ("key1",), "tpm"),
        ("model", ("m",), "tpm"),
    }


def test_a_tenant_overrides_its_plan_by_id() -> None:
    found = book(directory(tpm(7), plan=[tpm(1), rpm(2)])).resolve(ACME)
    assert {entry.key: entry.capacity for entry in found.limits} == {
        "tenant:acme/tpm": 7,
        "tenant:acme/rpm": 2,
    }
    assert {entry.knob for entry in found.limits} == {
        "limit `tpm` of tenant acme",
        "limit `rpm` of plan plan",
    }


def test_defaults_of_buckets() -> None:
    kind = pb.LIMIT_KIND_BUCKET
    snapshot = directory(
        limit("r", kind, pb.LIMIT_RESOURCE_REQUESTS, 5),
        limit("t", kind, pb.LIMIT_RESOURCE_TOKENS, 100, refill=40),
    )
    requests, tokens = book(snapshot).resolve(ACME).limits
    assert requests.shape == BucketShape(5, 5, 1_000)
    assert tokens.shape == BucketShape(100, 40, 60_000)
    assert (requests.limit_type, requests.resource_name) == ("rps", "requests_per_second")
    assert (tokens.limit_type, tokens.resource_name) == ("tpm", "tokens")
    assert tokens.max_debt == 100


def test_the_context_window_of_a_model_is_a_limit() -> None:
    snapshot = directory(context(9000))
    snapshot.models[0].max_context_tokens = 8192
    found = [e for e in book(snapshot).resolve(ACME).limits if e.kind is Kind.CONTEXT]
    assert {entry.key: entry.capacity for entry in found} == {
        "tenant:acme/context": 9000,
        "model:m/max_context_tokens": 8192,
    }


def test_policies_fall_through_to_the_plan() -> None:
    policy = pb.Policy(extend_policy=pb.EXTEND_POLICY_DEBT)
    snapshot = directory(policy=policy)
    snapshot.plans[0].policy.reserve_policy = pb.RESERVE_POLICY_ESTIMATE
    found = book(snapshot).resolve(ACME)
    assert (found.estimate, found.may_owe) == (True, True)


def test_what_is_gone_still_resolves_for_its_settlement() -> None:
    snapshot = directory(tpm(4), cluster=[tpm(1)], suspended=True)
    suspended = book(snapshot)
    with pytest.raises(WeirError) as caught:
        suspended.resolve(ACME)
    assert caught.value.reason is Reason.TENANT_SUSPENDED
    assert set(suspended.resolve_for_ending(ACME).by_key) == {"cluster/tpm", "tenant:acme/tpm"}
    nobody = Subject("gone", "bob", "key9", "gone")
    assert set(suspended.resolve_for_ending(nobody).by_key) == {"cluster/tpm"}


def test_a_key_of_another_tenant_is_refused() -> None:
    with pytest.raises(InvalidField, match="a key of tenant acme"):
        book(directory()).resolve(Subject("acme", "bob", "key2", "m"))


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(WeirError) as caught:
        book(directory()).resolve(Subject("acme", "bob", "key1", "zzz"))
    assert caught.value.reason is Reason.MODEL_NOT_FOUND


def test_an_alias_is_told_the_name_to_ask_by() -> None:
    snapshot = directory()
    snapshot.models[0].aliases.append("short")
    with pytest.raises(WeirError, match="short is an alias here; the model's name is m") as caught:
        book(snapshot).check_known(Subject("acme", "", "", "short"))
    assert caught.value.reason is Reason.MODEL_NOT_FOUND


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (limit("w", pb.LIMIT_KIND_WINDOW, pb.LIMIT_RESOURCE_TOKENS, 5), "`day` or `month`"),
        (limit("x", pb.LIMIT_KIND_UNSPECIFIED, pb.LIMIT_RESOURCE_TOKENS, 5), "x.kind is"),
        (limit("x", pb.LIMIT_KIND_LEASE, pb.LIMIT_RESOURCE_TOKENS, 5), "x.resource is 'TOKENS'"),
        (limit("x", pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_STREAMS, 5), "x.resource is 'STREA"),
        (tpm(-1, "x"), "acme/x.capacity is -1"),
        (tpm(2**53, "x"), "acme/x.capacity is 9007199254740992"),
        (tpm(1, "x", refill=-5), "acme/x.refill is -5"),
        (tpm(1, ""), "limits.id is ''"),
        (tpm(1, "a b"), "limits.id is 'a b'"),
    ],
)
def test_a_malformed_limit_is_named(bad: pb.Limit, told: str) -> None:
    with pytest.raises(WeirError, match=told):
        book(directory(bad))


def test_a_limit_of_an_unknown_kind_number_is_named() -> None:
    with pytest.raises(InvalidField, match="kind is '99'"):
        book(directory(pb.Limit(id="x", kind=99)))  # type: ignore[arg-type]


def test_two_limits_of_one_id_are_refused() -> None:
    with pytest.raises(InvalidField, match="unique in its owner"):
        book(directory(user=[rpm(1), rpm(2)]))


def test_a_plan_that_does_not_exist_is_refused() -> None:
    snapshot = directory()
    snapshot.tenants[0].plan_id = "typo"
    with pytest.raises(InvalidField, match=r"tenant:acme\.plan_id is 'typo'"):
        book(snapshot)
