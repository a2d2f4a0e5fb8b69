"""What the pages are told, from what services say."""

from typing import Any

import pytest

from weir.gateway.v1.history_service_pb2 import Distribution, HistorySample, PartsSample
from weir.ratelimiter.v1.ledger_service_pb2 import GetLedgerStatusResponse, UsageSum
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainResponse, LimitStatus
from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus, SloStatus, SloWindow, WorkerView
from weir.worker.v1.worker_service_pb2 import KvBlockState, KvMap
from weir_core.clock import ManualClock
from weir_gateway.console.alerts import alerts_json, of_fleet, of_parts, of_targets
from weir_gateway.console.calendar_span import window_filter
from weir_gateway.console.forms.fairness_json import fairness_json, jain_index
from weir_gateway.console.forms.kv_json import kv_json
from weir_gateway.console.forms.limits_json import limits_json
from weir_gateway.console.forms.moments import amount
from weir_gateway.console.forms.quantile import quantile
from weir_gateway.console.forms.traffic_json import traffic_json
from weir_gateway.console.past import Past
from weir_gateway.console.reconciliation import (
    Check,
    State,
    check_parts,
    check_window,
    sentence,
    state_of,
)
from weir_gateway.history.distribution import Tally

NOTHING = GetLedgerStatusResponse()


def limit(used: int, held: int = 0, of: int = 1_000, **more: Any) -> LimitStatus:
    fields: dict[str, Any] = {
        "limit_id": "tenant:acme/day",
        "limit_type": "budget",
        "resource": "tokens",
        "layer": "tenant",
        "window": "2026-11-30",
    }
    return LimitStatus(limit=of, remaining=of - used - held, held=held, **(fields | more))


def charged(tokens: int, nanos: int = 0) -> UsageSum:
    one = UsageSum(requests=1, amount_nanos=nanos)
    one.usage.prompt_tokens, one.usage.total_tokens = tokens, tokens
    return one


def test_what_is_held_is_in_no_ledger_yet() -> None:
    check = check_window(limit(100, held=50), limit(100, held=20), charged(100))
    assert check == Check("tenant:acme/day", "2026-11-30", "tokens", 100, 20, 100, 0)


@pytest.mark.parametrize(
    ("ledger", "difference"), [(99, -1), (100, 0), (105, 0), (110, 0), (111, 1)]
)
def test_while_requests_end_the_ledger_lies_between_two_looks(ledger: int, difference: int) -> None:
    check = check_window(limit(100), limit(110), charged(ledger))
    assert check is not None
    assert check.difference == difference
    assert check.state is (State.DIFFER if difference else State.AGREE)


def test_money_is_compared_in_nanos_and_requests_are_not_compared() -> None:
    check = check_window(limit(7, resource="cost"), limit(7, resource="cost"), charged(1, nanos=7))
    assert check is not None
    assert (check.unit, check.ledger, check.difference) == ("currency_nanos", 7, 0)
    per_day = limit(7, resource="requests_per_day")
    assert check_window(per_day, per_day, charged(1)) is None
    turned = limit(0, window="2026-12-01")
    assert check_window(limit(7), turned, charged(7)) is None
    unknown = LimitStatus(limit_id="tenant:acme/day", resource="tokens", window="2026-11-30")
    assert check_window(unknown, unknown, charged(7)) is None


def test_the_judgement_is_of_all_checks_and_of_what_waits() -> None:
    good, bad = check_parts("sum", "d", charged(5), charged(5)), Check("a/b", "d", "t", 1, 0, 2, 1)
    waiting = GetLedgerStatusResponse(outbox_events=3)
    away = GetLedgerStatusResponse(outbox_error="the store is away")
    assert state_of([good], NOTHING) is State.AGREE
    assert state_of([good, bad], NOTHING) is State.DIFFER
    assert state_of([good, bad], waiting) is State.CATCHING_UP
    assert state_of([good], waiting) is State.CATCHING_UP
    assert state_of([good], away) is State.UNKNOWN
    assert "the store is away" in sentence(State.UNKNOWN, [good], away)
    assert "AdjustLimit" in sentence(State.DIFFER, [bad], NOTHING)
    assert "1 calendar budget compared" in sentence(State.AGREE, [good, bad], NOTHING)


def test_parts_that_lack_a_token_differ() -> None:
    check = check_parts("sum", "d", charged(5), charged(4))
    assert (check.difference, check.state) == (1, State.DIFFER)


def test_windows_are_days_and_months_of_their_zone() -> None:
    day = window_filter("acme", "2026-11-30", "Asia/Shanghai", "tiny")
    assert day.from_time.ToJsonString() == "2026-11-29T16:00:00Z"
    assert day.to_time.ToJsonString() == "2026-11-30T16:00:00Z"
    assert (day.tenant_id, day.model) == ("acme", "tiny")
    month = window_filter("acme", "2026-12")
    assert month.from_time.ToJsonString() == "2026-12-01T00:00:00Z"
    assert month.to_time.ToJsonString() == "2027-01-01T00:00:00Z"
    # An hour less, as clocks are put forward.
    short = window_filter("acme", "2026-03-29", "Europe/Berlin")
    assert short.to_time.seconds - short.from_time.seconds == 23 * 3_600


def test_the_binding_limit_refuses_first_and_shadows_and_bounds_bind_nobody() -> None:
    told = ExplainResponse(
        limits=[
            limit(10, limit_id="loose"),
            limit(900, limit_id="tight", limit_type="tpm"),
            limit(990, limit_id="trial", shadow=True),
            limit(1_000, limit_id="context", limit_type="context"),
            LimitStatus(limit_id="cluster/rps", layer="cluster", limit_type="rps"),
        ]
    )
    shown = limits_json(told, for_admin=True)
    assert shown["binding"] == "tight"
    first = shown["limits"][0]
    assert (first["id"], first["binding"], first["used_share"]) == ("tight", True, 0.9)
    hidden = next(one for one in shown["limits"] if one["id"] == "cluster/rps")
    assert (hidden["limit"], hidden["used"], hidden["used_share"]) == (None, None, None)
    names = [one["id"] for one in limits_json(told, for_admin=False)["limits"]]
    assert "trial" not in names
    assert limits_json(ExplainResponse(limits=[limit(0)]), for_admin=True)["binding"] is None
    none = limits_json(ExplainResponse(limits=[limit(0, of=0)]), for_admin=True)
    assert none["limits"][0]["used_share"] == 1


def test_quantiles_are_within_a_bucket_of_the_values() -> None:
    tally = Tally()
    for number in range(1, 1_001):
        tally.add(number / 1_000)
    told = tally.message()
    for share in (0.5, 0.95, 0.99):
        assert quantile(told, share) == pytest.approx(share, rel=0.1)
    assert quantile(Distribution(), 0.5) is None


def test_traffic_is_told_of_all_of_models_and_of_tenants() -> None:
    sample = HistorySample()
    sample.duration.FromSeconds(10)
    for tenant, tokens in (("acme", 100), ("globex", 900)):
        flow = sample.flows.add(tenant_id=tenant, model="tiny", arrivals=20, output_tokens=tokens)
        flow.ended.add(outcome="ok", count=5)
        flow.refused.add(reason="RATE_LIMIT_EXCEEDED", limit_id=f"tenant:{tenant}/rps", count=2)
        flow.in_flight = 3
    told = traffic_json([sample])
    assert (told["in_flight"], told["requests_per_s"], told["output_tokens_per_s"]) == (6, 4, 100)
    assert [one["tenant"] for one in told["tenants"]] == ["globex", "acme"]
    assert told["models"][0]["refused_per_s"] == 0.4
    assert {one["limit"]: one["count"] for one in told["refusals"]} == {
        "tenant:acme/rps": 2,
        "tenant:globex/rps": 2,
    }
    assert told["outcomes"] == [{"outcome": "ok", "count": 10}]
    assert traffic_json([])["requests_per_s"] is None


def test_jains_index() -> None:
    assert jain_index([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert jain_index([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain_index([4.0]) is None
    assert jain_index([0.0, 0.0]) is None


def test_fairness_is_of_those_that_wait_and_by_weight() -> None:
    pool = PoolStatus(pool="default", model="tiny", isolation="weighted")
    for tenant, weight, served in (("a", 3, 3_000), ("b", 1, 1_000), ("idle", 1, 9_000)):
        pool.services.add(tenant_id=tenant, weight=weight, served_tokens=served, running=1)
    queue = pool.queues.add()
    queue.tenant_queues.add(tenant_id="a", waiting=2, waiting_tokens=50, counter=7)
    queue.tenant_queues.add(tenant_id="b", waiting=1, waiting_tokens=10)
    told = fairness_json(pool)
    # The idle one has had all that it asked for.
    assert told["jain_index"] == pytest.approx(1)
    first = told["tenants"][0]
    assert (first["waiting"], first["counter"], first["weight_share"]) == (2, 7, 0.6)
    assert first["service_share"] == 3_000 / 13_000
    assert told["tenants"][2]["counter"] is None


def test_kv_blocks_add_up_by_state_and_owner_and_what_is_missing_is_stranded() -> None:
    states = KvBlockState
    part = KvMap(
        known=True,
        total_blocks=20,
        block_size=16,
        tenants=["acme", "globex"],
        lengths=[4, 3, 2, 8],
        states=[
            states.KV_BLOCK_STATE_HELD,
            states.KV_BLOCK_STATE_CACHED,
            states.KV_BLOCK_STATE_PINNED,
            states.KV_BLOCK_STATE_FREE,
        ],
        owners=[1, 2, 2, 0],
    )
    told = kv_json("w", [part])
    assert told["states"] == {"free": 8, "cached": 3, "held": 4, "pinned": 2, "stranded": 3}
    assert told["owners"] == [
        {"tenant": "globex", "cached": 3, "held": 0, "pinned": 2, "total": 5},
        {"tenant": "acme", "cached": 0, "held": 4, "pinned": 0, "total": 4},
    ]
    assert told["runs"][1] == {"first": 4, "blocks": 3, "state": "cached", "tenant": "globex"}
    part.next_block = 17
    assert kv_json("w", [part])["bounded"]


def test_amounts_are_exact() -> None:
    assert amount(123) == "0.000000123"
    assert amount(-12_500_000_000) == "-12.500000000"


def test_alerts_name_what_is_wrong_the_worst_first() -> None:
    parts = PartsSample(ratelimiter_degraded=True, unheard_calls=2)
    parts.ledger.outbox_events, parts.ledger.outbox_age_ms = 9, 31_000
    lost = WorkerView(state="lost")
    lost.registration.worker_id = "w1"
    waiting = PoolStatus(pool="default", model="tiny")
    waiting.queues.add(waiting=4)
    missed = SloStatus(tenant_id="acme", objective="ttft", windows=[SloWindow(burn_rate=3)])
    kept = SloStatus(tenant_id="acme", objective="itl", windows=[SloWindow(burn_rate=0.5)])
    alerts = [*of_parts(parts), *of_fleet([lost], [waiting]), *of_targets([missed, kept])]
    told = alerts_json(iter(alerts))
    assert [one["what"] for one in told] == [
        "ratelimiter_degraded",
        "no_worker",
        "unheard",
        "ledger_lag",
        "worker_lost",
        "slo",
    ]
    assert "4 requests for tiny wait" in told[1]["text"]
    assert alerts_json(of_parts(PartsSample())) == []


async def test_the_past_is_joined_once_for_all_who_ask_alike_and_a_few_lengths_are_asked() -> None:
    asked: list[tuple[float, float]] = []

    async def read(window_s: float, step_s: float, tenant_id: str) -> dict[str, Any]:
        asked.append((window_s, step_s))
        points = list(range(round(window_s / step_s)))
        return {"times": points, "series": {tenant_id: points}}

    clock = ManualClock()
    past = Past(read, clock)
    told = await past.series("acme", 100, 1)
    assert (told["step_s"], asked) == (5, [(300, 5)])
    assert told["times"] == told["series"]["acme"] == list(range(40, 60))
    for window in range(61, 301):
        await past.series("acme", window, 5)
    assert len(asked) == 1
    assert (await past.series("", 100, 5))["series"].keys() == {""}, "another's is another"
    clock.advance_us(2_500_000)
    await past.series("acme", 100, 5)
    assert len(asked) == 3
    assert (await past.series("", 86_400, 1))["step_s"] == 120
    clock.advance_us(59_000_000)
    await past.series("", 80_000, 100)
    assert len(asked) == 4
    for window in (60, 300, 900, 3_600, 21_600, 86_400):
        for length in range(1, 3_601, 50):
            assert len((await past.series("", window, length))["times"]) <= 720
    # A day is asked for in so many ways and no more, however often.
    assert {step for window, step in asked if window == 86_400} == {120, 300, 600, 3_600}
