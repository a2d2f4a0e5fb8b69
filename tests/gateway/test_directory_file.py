import asyncio
import hashlib
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from weir.directory.v1.directory_pb2 import (
    ExtendPolicy,
    LimitKind,
    LimitResource,
    ReservePolicy,
    Snapshot,
)
from weir_core.clock import ManualClock
from weir_core.directory import DirectoryIndex
from weir_gateway.directory.difference import difference, is_empty
from weir_gateway.directory.file import DirectoryFileError, parse_document
from weir_gateway.directory.metrics import DirectoryMetrics
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.directory.source import DirectoryFileSource
from weir_gateway.directory.units import Rate, parse_amount, parse_duration_ms, parse_rate

HASH = hashlib.sha256(b"key").hexdigest()

GOOD = f"""
models:
  - name: tiny
    aliases: [small]
    versions:
      - {{version: v1, folder: /models/tiny}}
      - {{version: v2, weight: 5, folder: /models/tiny2}}
    max_context: 8Ki
    parameters: {{default_max_new_tokens: 64, alpha: 0.4, profiles: {{cpu: {{max_batch_size: 8}}}}}}
    limits: [{{resource: requests, rate: 100/s}}]
cluster:
  limits: [{{resource: concurrency, limit: 500}}]
tenants:
  - id: acme
    plan: standard
    limits: [{{resource: tokens, rate: 60k/min, burst: 90k, max_debt: 5k}}]
    policy: {{weight: 3, reserve_policy: estimate, extend_policy: debt}}
    parameters: {{"*": {{temperature: 0.5}}, tiny: {{max_new_tokens: 512}}}}
    users: [{{id: alice, limits: [{{resource: streams, limit: 3}}]}}]
    keys:
      - {{id: k1, user: alice, hash: "sha256:{HASH}", expires: 2030-01-01T00:00:00Z}}
"""


PRICED = GOOD.replace("8Ki", '8Ki\n    price: {input: 0.15, output: "0.60"}')


def built(text: str = GOOD, version: int = 1) -> Snapshot:
    return build_snapshot(parse_document(text, "directory.yaml"), version)


def test_a_file_becomes_a_snapshot() -> None:
    index = DirectoryIndex(built())
    tenant = index.tenant("acme")
    assert tenant is not None
    limits = {limit.id: limit.limit for limit in index.tenant_limits("acme")}
    tpm = limits["tenant:acme/tpm"]
    assert (tpm.capacity, tpm.refill, tpm.period.seconds, tpm.max_debt) == (
        90_000,
        60_000,
        60,
        5_000,
    )
    assert tpm.kind == LimitKind.LIMIT_KIND_BUCKET
    assert tpm.resource == LimitResource.LIMIT_RESOURCE_TOKENS
    assert limits["tenant:acme/concurrency"].capacity == 16
    assert limits["tenant:acme/rps"].capacity == 20
    policy = index.policy("acme")
    assert policy.weight == 3
    assert policy.reserve_policy == ReservePolicy.RESERVE_POLICY_ESTIMATE
    assert policy.extend_policy == ExtendPolicy.EXTEND_POLICY_DEBT
    parameters = index.parameters("tiny", "acme")
    assert (parameters.default_max_new_tokens, parameters.max_new_tokens) == (64, 512)
    assert (parameters.temperature, parameters.alpha_millis) == (0.5, 400)
    assert index.parameters("tiny", "acme", "cpu").max_batch_size == 8
    key = index.key_by_hash(bytes.fromhex(HASH))
    assert key is not None
    assert (key.id, key.tenant_id, key.user_id) == ("k1", "acme", "alice")
    assert key.expire_time.ToJsonString() == "2030-01-01T00:00:00Z"
    model = index.model("small")
    assert model is not None
    assert (model.name, model.max_context_tokens, model.pool) == ("tiny", 8192, "default")
    assert [version.weight for version in model.versions] == [100, 5]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}", "null", "[]"])
def test_an_empty_file_locks_nobody_out(text: str) -> None:
    with pytest.raises(DirectoryFileError, match="the file is empty"):
        parse_document(text, "directory.yaml")


def test_every_shipped_plan_limits_concurrency_and_tokens_per_minute() -> None:
    plans = parse_document("tenants: []", "plans.yaml").plans
    assert {plan.id for plan in plans} == {"free", "standard", "scale"}
    for plan in plans:
        ids = {limit.effective_id for limit in plan.limits}
        assert {"concurrency", "tpm"} <= ids, plan.id


def test_a_limit_of_one_model_stands_beside_that_of_all() -> None:
    named = GOOD.replace("tiny", "org/tiny").replace(
        "burst: 90k, max_debt: 5k}", "model: org/tiny}, {resource: streams, limit: 4}"
    )
    index = DirectoryIndex(built(named))
    limits = {limit.id: limit.limit for limit in index.tenant_limits("acme")}
    assert limits["tenant:acme/tpm"].capacity == 200_000
    assert limits["tenant:acme/tpm:org:tiny"].capacity == 60_000
    assert limits["tenant:acme/tpm:org:tiny"].model == "org/tiny"


def test_an_id_by_default_that_is_too_long_must_be_given() -> None:
    name = "m" * 125
    text = GOOD.replace("tiny", name).replace("burst: 90k", f"model: {name}")
    with pytest.raises(DirectoryFileError, match="more than 128 characters; give it an `id`"):
        built(text)
    assert built(text.replace("{resource: tokens", "{id: own, resource: tokens"))


def test_tokens_in_flight_are_a_hold() -> None:
    (limit,) = built(
        "cluster: {limits: [{resource: in_flight_tokens, limit: 64Ki}]}"
    ).cluster_limits
    assert (limit.id, limit.kind) == ("in_flight_tokens", LimitKind.LIMIT_KIND_HOLD)
    assert limit.resource == LimitResource.LIMIT_RESOURCE_IN_FLIGHT_TOKENS
    assert limit.capacity == 65_536
    with pytest.raises(DirectoryFileError, match="takes no 'rate'"):
        built("cluster: {limits: [{resource: in_flight_tokens, limit: 9, rate: 1/s}]}")


def test_budgets_are_windows_of_tokens_or_exact_money() -> None:
    windows = """
  limits:
    - {resource: tokens, limit: 2M, window: day, time_zone: Europe/Berlin}
    - {resource: cost, limit: 12.50, window: month, max_debt: "0.5"}
    - {resource: requests, limit: 1k, window: day}
    - {id: batch, resource: cost, limit: 0.000000001, window: day}
"""
    limits = {limit.id: limit for limit in built(f"cluster: {windows}").cluster_limits}
    tokens, budget = limits["tokens_per_day"], limits["budget_per_month"]
    assert tokens.kind == budget.kind == LimitKind.LIMIT_KIND_WINDOW
    assert (tokens.capacity, tokens.window, tokens.time_zone) == (2_000_000, "day", "Europe/Berlin")
    assert budget.resource == LimitResource.LIMIT_RESOURCE_COST
    assert (budget.capacity, budget.max_debt) == (12_500_000_000, 500_000_000)
    assert (budget.window, budget.time_zone) == ("month", "")
    assert limits["requests_per_day"].capacity == 1_000
    assert limits["batch"].capacity == 1


@pytest.mark.parametrize(
    ("named", "zone"), [("", "Europe/Berlin"), (", time_zone: UTC", "UTC")], ids=["none", "own"]
)
def test_a_window_in_place_of_the_plans_keeps_its_zone(named: str, zone: str) -> None:
    plan = """
plans:
  - {id: day, limits: [{resource: tokens, limit: 1M, window: day, time_zone: Europe/Berlin}]}
"""
    own = f"limits: [{{resource: tokens, limit: 2M, window: day{named}}}, "
    text = GOOD.replace("plan: standard", "plan: day").replace(
        "limits: [{resource: tokens", own + "{resource: tokens"
    )
    index = DirectoryIndex(built(plan + text))
    limits = {limit.id: limit.limit for limit in index.tenant_limits("acme")}
    window = limits["tenant:acme/tokens_per_day"]
    assert (window.capacity, window.time_zone) == (2_000_000, zone)
    assert limits["tenant:acme/tpm"].time_zone == ""


def test_prices_are_nano_units_per_token() -> None:
    index = DirectoryIndex(built(PRICED))
    model = index.model("tiny")
    assert model is not None
    price = model.price
    assert (price.input_nanos, price.cached_input_nanos, price.output_nanos) == (150, 150, 600)
    cached = PRICED.replace("output:", "cached_input: 0.015, output:")
    assert built(cached).models[0].price.cached_input_nanos == 15
    assert not built().models[0].HasField("price")


def test_a_problem_has_the_line_of_its_entry() -> None:
    for text, line in (
        (GOOD.replace("rate: 60k/min", "rate: 60k/parsec"), 16),
        (GOOD.replace("user: alice", "user: bob"), 21),
        ("cluster:\n  limits:\n    - {resource: tokens}\n", 3),
        ("plans:\n- id: a\n- id: b\n  policy: {weight: 0}\n", 4),
        ("a: [", 1),
    ):
        with pytest.raises(DirectoryFileError) as caught:
            parse_document(text, "directory.yaml")
        assert caught.value.problems[0].line == line, caught.value
        assert f"line {line}: " in str(caught.value)


BROKEN = [
    ("tenants: [{id: acme, plan: standard, quota: 3, users: [{id: a}]}]", "tenants[0].quota"),
    ("unknown: 1", "unknown: there is no such field"),
    ("- 1", "must hold a mapping"),
    (
        "cluster: {limits: [{resource: tokens, rate: 1/min}, {resource: tokens, rate: 2/min}]}",
        "the limit 'tpm' is there twice; give one of them an `id` of its own",
    ),
    ("plans: [{id: p}, {id: p}]", "'p' is there twice"),
    ("plans: {a: 1, a: 2}", "line 1: column 15: the key 'a' is there twice"),
    ("plans: [", "line 1"),
    ("tenants: [{id: t, plan: nope, users: [{id: a}]}]", "there is no plan 'nope'"),
    ("tenants: [{id: 'a b', plan: free, users: [{id: a}]}]", "tenants[0].id"),
    ("tenants: [{id: t, plan: free, users: []}]", "tenants[0].users"),
    ("cluster: {limits: [{resource: tokens, limit: 5}]}", "needs 'rate', or `limit` and `window`"),
    ("cluster: {limits: [{resource: tokens, rate: 5/parsec}]}", "'parsec' is not a duration"),
    ("cluster: {limits: [{resource: tokens, rate: -5/s}]}", "is not an amount"),
    ("cluster: {limits: [{resource: concurrency, rate: 5/s}]}", "needs 'limit'"),
    ("cluster: {limits: [{resource: concurrency, limit: true}]}", "is not an amount"),
    ("cluster: {limits: [{resource: tokens, limit: 9, window: week}]}", "limits[0].window"),
    ("cluster: {limits: [{resource: tokens, rate: 9/s, window: day}]}", "needs 'limit'"),
    ("cluster: {limits: [{resource: tokens, rate: 9/s, time_zone: UTC}]}", "no 'time_zone'"),
    ("cluster: {limits: [{resource: streams, limit: 9, window: day}]}", "takes no 'window'"),
    ("cluster: {limits: [{resource: cost, rate: 9/min}]}", "a limit of cost needs 'limit'"),
    ("cluster: {limits: [{resource: cost, limit: 9}]}", "a limit of cost needs 'window'"),
    ("cluster: {limits: [{resource: cost, limit: 5k, window: day}]}", "'5k' is not money"),
    ("cluster: {limits: [{resource: cost, limit: .nan, window: day}]}", "nan is not money"),
    ("cluster: {limits: [{resource: cost, limit: -1, window: day}]}", "-1 is not money"),
    (
        "cluster: {limits: [{resource: cost, limit: 9007200, window: day}]}",
        "cluster.limits[0].limit: 9007200 is too large",
    ),
    (
        "cluster: {limits: [{resource: tokens, limit: 9, window: day, time_zone: Mars/Base}]}",
        "'Mars/Base' is not a time zone",
    ),
    (PRICED.replace("input: 0.15", "input: 0.0001"), "price.input: 0.0001 is not a whole number"),
    (PRICED.replace('"0.60"', "true"), "models[0].price.output: True is not money"),
    (PRICED.replace("output:", "outputs:"), "models[0].price.output: Field required"),
    (
        "cluster: {limits: [{resource: streams, limit: 9}, {resource: streams, limit: 8}]}",
        "the limit 'streams' is there twice",
    ),
    (GOOD.replace("v2, weight: 5", "v1, weight: 5"), "the version 'v1' is there twice"),
    (GOOD.replace("aliases: [small]", "aliases: [tiny]"), "'tiny' is there twice"),
    (GOOD.replace("aliases: [small]", "pool: nope"), "there is no pool 'nope'"),
    (GOOD.replace("user: alice", "user: bob"), "there is no user 'bob'"),
    (GOOD.replace(f"sha256:{HASH}", "wr_live_secret"), "not a SHA-256 of a key"),
    (GOOD.replace("tiny: {max_new_tokens: 512}", "other: {}"), "there is no model 'other'"),
    (GOOD.replace("max_new_tokens: 512", "max_new_tokens: 9000"), "above max_context 8192"),
    (GOOD.replace("alpha: 0.4", "alpha: .nan"), "alpha"),
    (GOOD.replace("weight: 3", "max_running_requests: 3000000000"), "max_running_requests"),
    (GOOD.replace("weight: 3", "max_queued_requests: 3000000000"), "max_queued_requests"),
    (GOOD.replace("temperature: 0.5", "temperature: .inf"), "temperature"),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_a_broken_file_is_refused_in_one_line_with_the_path(text: str, expected: str) -> None:
    with pytest.raises(DirectoryFileError) as caught:
        parse_document(text, "directory.yaml")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "wr_live_secret" not in str(caught.value)


def test_units() -> None:
    assert parse_amount("60k") == 60_000
    assert parse_amount("1.5M") == 1_500_000
    assert parse_amount("8Ki") == 8192
    assert parse_amount(7) == 7
    assert parse_duration_ms("1.5s") == 1_500
    assert parse_rate("100/10s") == Rate(100, 10_000)
    assert parse_rate("2M/hour") == Rate(2_000_000, 3_600_000)
    for bad in ("1.5", "5x", "", "1e9", 2**53, 1.0, None, "0.5Ki/s"):
        with pytest.raises(ValueError):
            parse_rate(f"{bad}/s") if bad == "0.5Ki/s" else parse_amount(bad)


def test_a_delta_brings_a_watcher_to_the_new_version() -> None:
    old = built()
    changed = GOOD.replace("weight: 3", "weight: 7").replace("limit: 500", "limit: 400")
    changed += "\nplans: [{id: extra}]\n"
    new = built(changed, 2)
    delta = difference(old, new)
    assert [tenant.id for tenant in delta.changed.tenants] == ["acme"]
    assert not delta.changed.models
    result = DirectoryIndex(old).changed_by(delta).snapshot
    assert is_empty(difference(result, new))
    again = difference(result, built(version=3))
    back = DirectoryIndex(result).changed_by(again).snapshot
    assert is_empty(difference(back, built(version=3)))
    assert [plan.id for plan in back.plans] == [plan.id for plan in old.plans]


async def test_a_bad_reload_keeps_the_last_good_version(tmp_path: Path) -> None:
    path = tmp_path / "directory.yaml"
    path.write_text(GOOD)
    publisher = DirectoryPublisher(ManualClock())
    registry = CollectorRegistry()
    metrics = DirectoryMetrics(registry)
    publisher.on_change(metrics.changed)
    source = DirectoryFileSource(path, publisher, poll_s=0.01, on_refused=metrics.refused)
    assert source.load()
    first = publisher.required.version
    path.write_text("tenants: [")
    source.reload()
    assert publisher.required.version == first
    assert registry.get_sample_value("weir_gateway_directory_version") == first
    assert registry.get_sample_value("weir_gateway_directory_refused_total") == 1
    source.start()
    try:
        path.write_text(GOOD.replace("weight: 3", "weight: 9"))
        async with asyncio.timeout(5):
            while publisher.required.version == first:
                await asyncio.sleep(0.01)
    finally:
        await source.stop()
    assert publisher.required.policy("acme").weight == 9
    version = registry.get_sample_value("weir_gateway_directory_version")
    assert version == publisher.required.version
    assert publisher.delta_from(first) is not None


async def test_reloading_the_same_content_is_no_new_version(tmp_path: Path) -> None:
    path = tmp_path / "directory.yaml"
    path.write_text(GOOD)
    publisher = DirectoryPublisher(ManualClock())
    source = DirectoryFileSource(path, publisher)
    assert source.load()
    assert not source.load()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    source = DirectoryFileSource(tmp_path / "none.yaml", DirectoryPublisher(ManualClock()))
    with pytest.raises(DirectoryFileError, match="No such file"):
        source.load()
