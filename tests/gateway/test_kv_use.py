"""What the gateway tells workers and scheduler of a tenant's KV cache."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.support import caller_of, document_of, published
from tests.gateway.test_intake import KEY as INTAKE_KEY
from tests.gateway.test_intake import preparer
from weir.common.v1.lifecycle_pb2 import TraceContext
from weir.directory.v1.directory_pb2 import KvPolicy as TenantKvPolicy
from weir.scheduler.v1.scheduler_service_pb2 import Dispatched
from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_core.prefix_hash import PrefixNamespace, prefix_hashes
from weir_gateway.directory.file import DirectoryFileError, parse_document
from weir_gateway.flow.messages import enqueue_message, start_message
from weir_gateway.flow.request_facts import RequestFacts
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.headroom import default_max_new_tokens
from weir_gateway.intake.kv_use import check_kv_quota, kv_policy_of, placement_hashes
from weir_gateway.intake.session_turn import SessionTurn
from weir_gateway.keys import generate_key
from weir_gateway.text.model_text import Prompt

KEY = generate_key("dev")


def caller(of_plan: dict[str, Any] | None = None, of_tenant: dict[str, Any] | None = None) -> Any:
    document = document_of(KEY)
    document["plans"][0].setdefault("policy", {})["kv"] = of_plan or {}
    document["tenants"][0].setdefault("policy", {})["kv"] = of_tenant or {}
    publisher = published(document, ManualClock())
    return publisher.required, caller_of(publisher, KEY.id)


def test_a_tenants_fields_win_over_its_plans_one_by_one() -> None:
    plan = {"max_tokens": "64k", "weight": 3, "share_private": True, "session_ttl_s": 1200}
    _, who = caller(plan, {"share_private": False, "session_ttl_s": 0, "max_tokens": 0})
    told = kv_policy_of(who.policy.kv)
    assert (told.max_tokens, told.weight, told.share_private, told.session_ttl_ms) == (
        *(0, 3),
        *(False, 0),
    )
    told = kv_policy_of(caller(plan)[1].policy.kv)
    assert (told.max_tokens, told.weight, told.share_private, told.session_ttl_ms) == (
        *(64_000, 3),
        *(True, 1_200_000),
    )


def test_by_default_there_is_no_quota_and_sessions_live_15_minutes() -> None:
    told = kv_policy_of(caller()[1].policy.kv)
    assert (told.max_tokens, told.weight, told.share_private) == (0, 1, False)
    assert told.session_ttl_ms == 15 * 60 * 1000


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{weight: 0}", ("kv.weight", "greater than or equal to 1")),
        ("{weight: 1001}", ("kv.weight", "less than or equal to 1000")),
        ("{max_tokens: -1}", ("kv.max_tokens", "-1")),
        ("{session_ttl_s: 599}", ("kv.session_ttl_s", "599", "from 600 to 1800")),
        ("{session_ttl_s: 1801}", ("kv.session_ttl_s", "1801", "from 600 to 1800")),
        ("{blocks: 3}", ("kv.blocks",)),
    ],
)
def test_a_value_out_of_bounds_is_named_with_field_and_bound(
    entry: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(DirectoryFileError) as caught:
        parse_document(f"plans:\n- id: a\n  policy:\n    kv: {entry}\n", "directory.yaml")
    for word in words:
        assert word in str(caught.value)


def test_what_never_fits_the_quota_is_refused_before_it_is_reserved() -> None:
    quota = TenantKvPolicy(max_tokens=100)
    check_kv_quota(quota, 60, 41, "max_tokens")
    check_kv_quota(TenantKvPolicy(), 60_000, 41, "max_tokens")
    with pytest.raises(WeirError) as caught:
        check_kv_quota(quota, 60, 42, "max_tokens")
    assert caught.value.reason is Reason.REQUEST_TOO_LARGE
    assert caught.value.field == "max_tokens"
    for word in ("60", "42", "101", "100", "kv.max_tokens"):
        assert word in caught.value.message


async def test_the_quota_is_checked_when_a_request_is_prepared_and_told_when_it_starts(
    tmp_path: Path,
) -> None:
    made, publisher = await preparer(tmp_path, policy={"kv": {"max_tokens": 12, "weight": 7}})
    who = caller_of(publisher, INTAKE_KEY.id)
    with pytest.raises(WeirError, match="your quota is 12 at once"):
        await made.prepare(who, GenerationRequest(model="tiny", prompt="hi", max_new_tokens=40))
    prepared = await made.prepare(who, GenerationRequest(model="tiny", prompt="hi"))
    assert prepared.prompt_tokens + prepared.max_new_tokens - 1 <= 12
    start = start_message(
        prepared, RequestFacts(), Dispatched(), deadline_us=0, trace=TraceContext()
    )
    assert (start.spec.kv.max_tokens, start.spec.kv.weight) == (12, 7)
    made.close()


async def test_the_scheduler_is_told_the_names_of_the_shared_prefix_alone(tmp_path: Path) -> None:
    made, publisher = await preparer(tmp_path)
    who = caller_of(publisher, INTAKE_KEY.id)
    text = "ab " * 200
    prepared = await made.prepare(who, GenerationRequest(model="tiny", prompt=text[:90]))
    ids = list(range(3, 203))
    prepared = replace(prepared, prompt=Prompt(ids, shared_tokens=150))
    namespace = PrefixNamespace("acme", "tiny", prepared.fingerprint)
    names = prefix_hashes(namespace.root(), ids[:150], 64)
    told = enqueue_message(
        "r", prepared, RequestFacts(), deadline_us=0, trace=TraceContext()
    ).prefix_hashes
    assert list(told) == names
    one, two, branch = (
        placement_hashes(replace(prepared, session=turn))
        for turn in (
            SessionTurn("ses_1", 600_000),
            SessionTurn("ses_2", 600_000),
            SessionTurn("ses_1", 600_000, keeps=False),
        )
    )
    assert (len(one), one[:2], branch) == (3, names, names)
    assert one[2] != two[2]


def test_a_sessions_kv_is_kept_as_long_as_it_may_be_idle() -> None:
    turn = SessionTurn("ses_1", 1_200_000)
    for seconds, kept_ms in ((None, 1_200_000), (0, 0), (600, 600_000), (1800, 1_200_000)):
        plan = {} if seconds is None else {"session_ttl_s": seconds}
        assert kv_policy_of(caller(plan)[1].policy.kv, turn).session_ttl_ms == kept_ms


def test_the_default_bound_fits_the_quota() -> None:
    index, who = caller({"max_tokens": 30})
    most = default_max_new_tokens(
        index, who, model="tiny", prompt_tokens=10, wanted=50, context=100
    )
    assert most == 21
