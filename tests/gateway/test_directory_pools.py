"""Pools, shares, shedding and targets: from the directory file to the scheduler's rules."""

import pytest

from weir_core.directory import DirectoryIndex
from weir_gateway.directory.file import DirectoryFileError, parse_document
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.pool_scope import PoolScope, PromptLength, WhenGone
from weir_scheduler.rules.routing import pools_for
from weir_scheduler.rules.rules import Isolation
from weir_scheduler.rules.shares import Shares
from weir_scheduler.rules.shedding_rules import ShedCurve, SheddingRules
from weir_scheduler.rules.slo_targets import SloTargets
from weir_scheduler.server.directory_rules import DirectoryRules

FILE = """
pools:
- name: usual
  shares: {interactive: 3, long: 2}
  shedding: {curve: holdback, from: 0.4}
- name: far
  length: long
  profiles: [h200]
- name: night
  class: batch
  profiles: [l4]
  when_gone: wait
- name: vip
  isolation: dedicated
  tenant: acme
plans:
- id: team
  policy: {slo: {ttft_ms: 800, attainment: 0.99}}
models:
- name: tiny
  versions: [{version: "1", folder: /models/tiny}]
  max_context: 131072
  pool: usual
  further_pools: [far, night, vip]
  parameters:
    long_context_threshold: 8000
    max_batch_size: 32
    batch_wait_ms: 8
    offline_batch_wait_ms: 80
    profiles:
      h200: {max_running_long: 20, offline_max_batch_tokens: 500k}
tenants:
- id: acme
  plan: team
  policy: {slo: {itl_ms: 40, shed: true}}
  users: [{id: u}]
- id: other
  plan: team
  users: [{id: u}]
"""


def rules_of(text: str) -> DirectoryRules:
    rules = DirectoryRules()
    rules.use(DirectoryIndex(build_snapshot(parse_document(text, "file"), 1)))
    return rules


def test_pools_reach_the_scheduler() -> None:
    first = rules_of(FILE).pool("tiny")
    far, night, vip = first.further
    assert first.shares == Shares(interactive=3, batch=1, short=4, long=2)
    assert first.shedding == SheddingRules(ShedCurve.HOLDBACK, 400)
    assert far.scope == PoolScope(length=PromptLength.LONG, profiles=frozenset({"h200"}))
    assert (far.when_gone, night.when_gone, vip.when_gone) == (
        WhenGone.SHARED,
        WhenGone.WAIT,
        WhenGone.REFUSE,
    )
    assert night.scope.request_class is RequestClass.BATCH
    assert (vip.isolation, vip.scope.tenant_id) == (Isolation.DEDICATED, "acme")


@pytest.mark.parametrize(
    ("tenant", "request_class", "length", "names"),
    [
        ("other", RequestClass.INTERACTIVE, PromptLength.SHORT, ["usual"]),
        ("other", RequestClass.INTERACTIVE, PromptLength.LONG, ["far", "usual"]),
        ("other", RequestClass.BATCH, PromptLength.LONG, ["far", "night", "usual"]),
        ("acme", RequestClass.INTERACTIVE, PromptLength.LONG, ["vip", "far", "usual"]),
    ],
)
def test_the_pool_that_is_meant_for_a_request_comes_first(
    tenant: str, request_class: RequestClass, length: PromptLength, names: list[str]
) -> None:
    first = rules_of(FILE).pool("tiny")
    assert [pool.name for pool in pools_for(first, tenant, request_class, length)] == names


def test_bounds_come_from_the_file_and_what_it_leaves_out_from_the_others() -> None:
    rules = rules_of(FILE)
    usual, large = rules.worker("tiny", ""), rules.worker("tiny", "h200")
    assert usual.max_running_long == 32 // 4
    assert usual.offline_max_batch_tokens == 2 * usual.max_batch_tokens
    assert (large.max_running_long, large.offline_max_batch_tokens) == (20, 500_000)
    request = rules.request("tiny", "acme")
    assert (request.batch_wait_us, request.offline_batch_wait_us) == (8_000, 80_000)
    assert request.long_context_threshold == 8_000


def test_targets_of_a_tenant_fall_back_to_its_plans_one_by_one() -> None:
    rules = rules_of(FILE)
    assert rules.tenant("other").slo == SloTargets(ttft_us=800_000, attainment_millis=990)
    assert rules.tenant("acme").slo == SloTargets(
        ttft_us=800_000, itl_us=40_000, attainment_millis=990, shed=True
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("batch_wait_ms: 8\n", "batch_wait_ms: 1\n", "from 2 to 10 milliseconds"),
        ("batch_wait_ms: 8\n", "batch_wait_ms: 11\n", "from 2 to 10 milliseconds"),
        ("offline_batch_wait_ms: 80", "offline_batch_wait_ms: 19", "from 20 to 100 milliseconds"),
        ("profiles: [l4]", "profiles: [h200]", "two of its pools claim .* 'h200'"),
        ("profiles: [l4]", "profiles: []", "'usual' and 'night' name no `profiles`"),
        ("further_pools: [far,", "further_pools: [far, far,", "'far' is there twice"),
        ("further_pools: [far,", "further_pools: [fur,", "there is no pool 'fur'"),
        ("from: 0.4", "from: 1.4", "less than or equal to 0.999"),
        ("interactive: 3", "interactive: 0", "greater than or equal to 1"),
        ("attainment: 0.99", "attainment: 1", "less than or equal to 0.999"),
        ("tenant: acme", "tenant: nobody", "there is no tenant 'nobody'"),
        ("max_batch_size: 32", "max_batch_tokens: 9k\n    offline_max_batch_tokens: 8k",
         "offline_max_batch_tokens 8000 is below max_batch_tokens 9000"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_the_bound(old: str, new: str, problem: str) -> None:
    text = FILE.replace(old, new)
    assert text != FILE
    with pytest.raises(DirectoryFileError, match=problem):
        parse_document(text, "file")


def test_no_window_is_a_window_too() -> None:
    text = FILE.replace("batch_wait_ms: 8\n", "batch_wait_ms: 0\n")
    assert rules_of(text).request("tiny", "").batch_wait_us == 0
