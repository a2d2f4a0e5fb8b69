from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.refusal_pb2 import Refusal, Violation
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainResponse,
    LimiterMode,
    LimitStatus,
    Reservation,
    ReservationState,
)
from weir_cli.account_text import account_text, decision_text
from weir_cli.app import app
from weir_cli.errors import CommandError
from weir_cli.spans import span_text
from weir_cli.stack.running import ratelimiter_door, running_folder
from weir_cli.stack.state_dir import StateDir
from weir_cli.stack.whereabouts import announce

NOW_MS = 1_767_225_600_000


def status(limit_id: str, limit_type: str, resource: str, **fields: Any) -> LimitStatus:
    reset_ms = fields.pop("reset_ms", 0)
    made = LimitStatus(limit_id=limit_id, limit_type=limit_type, resource=resource, **fields)
    if reset_ms:
        made.reset_time.FromMilliseconds(reset_ms)
    return made


def account() -> ExplainResponse:
    limits = [
        status("cluster/rps", "rps", "requests_per_second", layer="cluster"),
        status(
            "tenant:acme/tpm",
            "tpm",
            "tokens",
            limit=60_000,
            remaining=4_100,
            held=512,
            used_last_minute=55_900,
            reset_ms=NOW_MS + 55_900,
        ),
        status(
            "tenant:acme/budget_per_month",
            "budget",
            "cost_per_month",
            limit=25_000_000_000,
            remaining=24_500_000_000,
            held=0,
            window="2026-01",
            reset_ms=NOW_MS + 86_400_000,
        ),
        status("tenant:acme/concurrency", "concurrency", "concurrency", limit=4, remaining=3),
        status("tenant:acme/context", "context", "context_tokens", limit=8_192, remaining=8_192),
    ]
    return ExplainResponse(limits=limits)


def test_every_limit_is_a_row_and_what_flows_back_is_said() -> None:
    lines = account_text(account(), NOW_MS).splitlines()
    assert lines[0].split()[:6] == ["LIMIT", "COUNTS", "OF", "USED", "HELD", "LEFT"]
    assert lines[1].split() == ["cluster/rps", "requests_per_second", *"-----", "now"]
    assert lines[2].split()[2:7] == ["60,000", "55,900", "512", "4,100", "55,900"]
    assert "cost_per_month 2026-01" in lines[3]
    assert lines[3].split()[3:6] == ["25", "0.5", "0"]
    assert lines[5].split()[-5:] == ["-", "-", "-", "-", "-"]
    assert lines[7] == (
        "tenant:acme/tpm: over the last 60 s 55,900 tokens were used; 4,100 can be used now, "
        "60,000 in 55.9 s (2026-01-01 00:00:55Z)"
    )
    assert lines[8].startswith("tenant:acme/budget_per_month: 0.5 of 25 cost are used; 24.5 can be")


def test_debt_and_degraded_mode_are_said() -> None:
    response = account()
    response.limits[1].remaining = -300
    response.limiter_mode = LimiterMode.LIMITER_MODE_DEGRADED
    text = account_text(response, NOW_MS)
    assert text.startswith("degraded: ")
    assert "0 can be used now (300 in debt)" in text


def test_a_refused_request_is_told_with_time_and_knob() -> None:
    violation = Violation(
        limit_id="tenant:acme/tpm",
        resource="tokens",
        limit=60_000,
        used=55_900,
        requested=8_000,
        allowance="60000 tokens per minute",
        knob="limit `tpm` of tenant acme",
    )
    violation.reset_time.FromMilliseconds(NOW_MS + 3_900)
    never = Violation(limit_id="cluster/tpm", resource="tokens", requested=8_000, knob="cluster")
    response = ExplainResponse(refusal=Refusal(violations=[violation, never]))
    assert decision_text(response, NOW_MS).splitlines() == [
        "refused:",
        "  tenant:acme/tpm allows 60000 tokens per minute; 55900 used, 8000 requested; fits "
        "in 3.9 s (2026-01-01 00:00:03Z); to change: limit `tpm` of tenant acme",
        "  cluster/tpm is at its limit of tokens; never fits; to change: cluster",
    ]
    assert decision_text(ExplainResponse(admissible=True), NOW_MS) == "admitted"


def test_a_reservation_is_told_open_and_ended() -> None:
    reservation = Reservation(
        reservation_id="res_1",
        request_id="req_1",
        state=ReservationState.RESERVATION_STATE_RESERVED,
        reserved_prompt_tokens=10,
        reserved_output_tokens=20,
        progress_output_tokens=7,
    )
    reservation.create_time.FromMilliseconds(NOW_MS)
    text = account_text(ExplainResponse(reservation=reservation), NOW_MS)
    assert text.splitlines()[:2] == [
        "request req_1: RESERVED",
        "  runs; 7 output tokens reported so far, its lease ends at 1970-01-01 00:00:00Z",
    ]
    assert text.endswith("no limit applies; is the tenant in the directory?")
    reservation.state = ReservationState.RESERVATION_STATE_SETTLED
    reservation.settlement.charged.completion_tokens = 9
    reservation.settlement.settle_time.FromMilliseconds(NOW_MS + 2_500)
    reservation.amount_nanos = 5_400_000
    reservation.outcome = Outcome.OUTCOME_OK
    ended = account_text(ExplainResponse(reservation=reservation), NOW_MS)
    assert ended.splitlines()[:3] == [
        "request req_1: SETTLED",
        "  outcome ok, ended at 2026-01-01 00:00:02Z after 2.5 s",
        "  charged 0 prompt (0 cached) + 9 output tokens, cost 0.0054",
    ]


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (55_900, "55.9 s"),
        (119_000, "1 min 59 s"),
        (72_216_600, "20 h 4 min"),
        (200_000_000, "2 d 8 h"),
    ],
)
def test_a_span_is_told_in_the_units_that_fit(ms: int, told: str) -> None:
    assert span_text(ms) == told


def test_the_running_stack_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path))
    monkeypatch.delenv("WEIR_CLUSTER_TOKEN", raising=False)
    with pytest.raises(CommandError, match="no `weir up` runs here"):
        ratelimiter_door("", None)
    with pytest.raises(CommandError, match="WEIR_CLUSTER_TOKEN"):
        ratelimiter_door("127.0.0.1:1", None)
    running = StateDir(tmp_path / "run" / "20260101-000000-1")
    ended = StateDir(tmp_path / "run" / "20260102-000000-1")
    for state in (running, ended):
        state.cluster_secret()
        state.write_private("ratelimiter.yaml", "address: 127.0.0.1:8002\n")
    ended.release()
    try:
        door = ratelimiter_door("", None)
        assert door.address == "127.0.0.1:8002"
        assert door.token.get_secret_value() == running.cluster_secret()
    finally:
        running.release()
    with pytest.raises(CommandError, match="is not the --state-dir"):
        ratelimiter_door("", tmp_path)


def test_a_stack_with_a_folder_of_its_own_is_found_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path / "home"))
    one, two = StateDir(tmp_path / "one"), StateDir(tmp_path / "two")
    with pytest.raises(CommandError, match=r"2 `weir up` run here.*/one, .*/two"):
        running_folder()
    assert "2 `weir up` run here" in _explain_error()
    monkeypatch.setenv("WEIR_STATE_DIR", str(one.path))
    # Nothing was started in it.
    assert f"{one.path} is not the --state-dir" in _explain_error()
    two.release()
    assert running_folder() == one.path
    # A supervisor that was killed leaves its pointer behind, without the lock.
    announce(two.path)
    assert running_folder() == one.path
    one.release()
    with pytest.raises(CommandError, match="no `weir up` runs here"):
        running_folder()


def _explain_error() -> str:
    return str(CliRunner().invoke(app, ["explain", "acme"]).exception)


def test_a_request_needs_a_model() -> None:
    result = CliRunner().invoke(app, ["explain", "acme", "--prompt-tokens", "5"])
    assert "give --model" in str(result.exception)


@pytest.mark.parametrize(
    ("amount", "options", "told"),
    [("1.5", [], "not a whole number"), ("5k", ["--money"], "not money"), ("x", [], "an amount")],
)
def test_an_amount_that_is_none_is_named(amount: str, options: list[str], told: str) -> None:
    arguments = ["limits", "adjust", "acme", "tpm", amount, "--note", "x", *options]
    result = CliRunner().invoke(app, arguments)
    assert f"AMOUNT: '{amount}' is" in str(result.exception)
    assert told in str(result.exception)
