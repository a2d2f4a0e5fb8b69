import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from tests.ratelimiter.account import directory, in_flight
from tests.ratelimiter.test_service import TOKEN, service
from weir_cli.app import app
from weir_cli.errors import CommandError

GOOD = """
plans:
  - id: team
    limits:
      - {resource: concurrency, limit: 8}
      - {resource: tokens, rate: 100k/min}
models:
  - name: tiny
    versions: [{version: v1, folder: /models/tiny}]
    max_context: 8Ki
    price: {input: 0.15, output: 0.60}
tenants:
  - id: acme
    plan: team
    users: [{id: alice}]
"""


def check(tmp_path: Path, text: str, *options: str) -> Result:
    file = tmp_path / "directory.yaml"
    file.write_text(text)
    return CliRunner().invoke(app, ["limits", "check", str(file), *options])


def test_a_good_file_is_good(tmp_path: Path) -> None:
    result = check(tmp_path, GOOD, "--strict")
    assert (result.exit_code, result.output) == (
        0,
        f"{tmp_path}/directory.yaml: good, no warnings\n",
    )


def test_parameters_where_nobody_looks_for_them_are_warned_of(tmp_path: Path) -> None:
    of_model = "    parameters: {profiles: {cpu: {max_batch_size: 8, alpha: 1, batch_wait_ms: 0}}}"
    text = GOOD.replace("    max_context", f"{of_model}\n    max_context")
    of_tenant = '    parameters: {"*": {max_step_tokens: 64, top_k: 5}}'
    result = check(tmp_path, f"{text}{of_tenant}\n")
    first, second, last = result.output.splitlines()
    assert "warning: model 'tiny': alpha, batch_wait_ms are under `profiles: cpu` without" in first
    assert "warning: tenant 'acme': max_step_tokens is of `parameters: *` without effect" in second
    assert last.endswith("2 warnings")


def test_every_error_has_its_line_and_field(tmp_path: Path) -> None:
    broken = GOOD.replace("rate: 100k/min", "rate: 100k").replace("0.60", "0.0001")
    result = check(tmp_path, broken)
    assert result.exit_code == 1
    first, second, last = result.output.splitlines()
    assert "directory.yaml:6: error: plans[0].limits[1].rate: '100k' is not a rate" in first
    assert "directory.yaml:11: error: models[0].price.output: 0.0001 is not a whole" in second
    assert last.endswith("2 errors; it would be refused")


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("- {resource: concurrency, limit: 8}", "", 3, "no limit of `concurrency`"),
        (
            "- {resource: tokens, rate: 100k/min}",
            "- {resource: tokens, limit: 1M, window: day}",
            3,
            "no limit of `tokens` with a rate",
        ),
        ("100k/min}", "100k/min, shadow: true}", 3, "no limit of `tokens` with a rate"),
        ("100k/min}", "100k/min, shadow: true}", 6, "it is a shadow"),
        ("100k/min", "1k/min", 6, "never holds more than 1000 tokens"),
        ("limit: 8}", "limit: 0}", 5, "refuses every request"),
        (
            "plan: team",
            "plan: team\n    limits: [{resource: in_flight_tokens, limit: 1k}]",
            15,
            "never holds more than 1000 tokens: the longest requests to model 'tiny' (8192) "
            "never fit; raise its `limit`",
        ),
        ("plan: team", "plan: standard", 3, "no tenant is on it"),
        (
            "plan: team",
            "plan: team\n    limits: [{resource: context_tokens, limit: 9Ki}]",
            15,
            "bounds nothing",
        ),
        (
            "plan: team",
            "plan: team\n    limits: [{resource: cost, limit: 0.004, window: day}]",
            15,
            "can cost 0.0049152 and never fits in 0.004; raise its `limit`",
        ),
        (
            "plan: team",
            "plan: team\n    limits: [{resource: tokens, rate: 1M/hour}]",
            15,
            "limit 'tpm' of plan 'team' stays in force beside it",
        ),
        (
            "plan: team",
            "plan: team\n    limits: [{id: tpm, resource: tokens, rate: 10k/min, model: tiny}]",
            15,
            "replaces limit 'tpm' of plan 'team', which bounds tokens of all models, while it "
            "bounds tokens of model 'tiny'; give it another `id` to keep both",
        ),
        (
            "tenants:",
            "  - name: dear\n    versions: [{version: v1, folder: /nowhere}]\n"
            "    max_context: 8192\n    price: {input: 0.01, output: 9}\n"
            "  - name: cheap\n    versions: [{version: v1, folder: /nowhere}]\n"
            "    max_context: 8192\n    price: {input: 0.01, output: 0.02}\n"
            "    fallback_model: dear\ntenants:",
            16,
            "its fallback_model 'dear' has dearer tokens",
        ),
    ],
)
def test_what_is_rarely_meant_is_a_warning(
    tmp_path: Path, old: str, new: str, line: int, expected: str
) -> None:
    text = GOOD.replace(old, new)
    result = check(tmp_path, text, "-o", "json")
    assert result.exit_code == 0
    told: dict[str, Any] = json.loads(result.output)
    assert not told["errors"]
    assert line in {e["line"] for e in told["warnings"] if expected in e["message"]}, told
    assert check(tmp_path, text, "--strict").exit_code == 1


@pytest.mark.parametrize(
    "limits",
    [
        "{resource: tokens, rate: 10k/min, model: tiny}",
        "{resource: tokens, rate: 10k/min}, {id: lid, resource: requests, rate: 9/s}",
    ],
)
def test_what_adds_to_the_plan_or_replaces_its_own_kind_is_no_warning(
    tmp_path: Path, limits: str
) -> None:
    text = GOOD.replace("plan: team", f"plan: team\n    limits: [{limits}]")
    assert check(tmp_path, text, "--strict").exit_code == 0


def test_nothing_is_said_to_stay_that_is_replaced(tmp_path: Path) -> None:
    both = "{resource: tokens, rate: 10k/min}, {id: lid, resource: tokens, rate: 9k/hour}"
    text = GOOD.replace("plan: team", f"plan: team\n    limits: [{both}]")
    assert "stays in force" not in check(tmp_path, text).output


SMALL = {
    "a bucket": "{resource: tokens, rate: 5k/min}",
    "money": "{resource: cost, limit: 0.003, window: day}",
}


@pytest.mark.parametrize("small", SMALL.values(), ids=SMALL)
def test_what_bounds_requests_elsewhere_is_known(tmp_path: Path, small: str) -> None:
    bound = "{resource: context_tokens, limit: 4Ki}"
    own = f"plan: team\n    limits: [{small}"
    user = "users: [{id: alice, limits: [%s]}]"
    plan = "- {resource: concurrency, limit: 8}"
    of_user = GOOD.replace("users: [{id: alice}]", user % small)
    for text in (
        GOOD.replace("plan: team", f"{own}, {bound}]"),
        GOOD.replace("plan: team", f"{own}]").replace(plan, f"{plan}\n      - {bound}"),
        GOOD.replace("plan: team", f"{own}]") + f"cluster: {{limits: [{bound}]}}\n",
        of_user.replace(plan, f"{plan}\n      - {bound}"),
        of_user.replace("max_context: 8Ki", f"max_context: 8Ki\n    limits: [{bound}]"),
    ):
        assert check(tmp_path, text, "--strict").exit_code == 0, check(tmp_path, text).output
    assert check(tmp_path, of_user, "--strict").exit_code == 1


def test_a_bad_entry_of_a_list_is_one_error(tmp_path: Path) -> None:
    result = check(tmp_path, GOOD.replace(", folder: /models/tiny", ""))
    assert result.output.splitlines()[0].endswith("models[0].versions[0].folder: Field required")
    assert result.output.splitlines()[1].endswith("1 error; it would be refused")


def test_money_without_a_price_counts_nothing(tmp_path: Path) -> None:
    text = GOOD.replace("    price: {input: 0.15, output: 0.60}\n", "")
    text += "    limits: [{resource: cost, limit: 5, window: month}]\n"
    result = check(tmp_path, text)
    assert "tenant 'acme', limit 'budget_per_month': it counts nothing" in result.output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["limits", "check", str(tmp_path / "none.yaml")])
    assert result.exit_code == 1
    assert "No such file" in result.output


@pytest.mark.parametrize("page", ["limits.md", "configuration.md"])
def test_the_complete_example_of_the_page_is_good(
    repo_root: Path, tmp_path: Path, page: str
) -> None:
    text = (repo_root / "docs" / page).read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (complete,) = (block for block in blocks if "tenants:" in block)
    result = check(tmp_path, complete.replace("<64 hex digits>", "0" * 64), "--strict")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("tpm", "tenant:acme/tpm"),
        ("tpm:large", "tenant:acme/tpm:large"),
        ("user:acme/alice/rpm", "user:acme/alice/rpm"),
    ],
)
def test_a_limit_to_adjust_is_named_by_its_id_or_as_explained(
    monkeypatch: pytest.MonkeyPatch, told: str, asked: str
) -> None:
    stub = Mock()
    stub.AdjustLimit.side_effect = CommandError("asked")

    async def ask(_: object, call: Callable[[Mock], object]) -> object:
        return call(stub)

    # The package has the command by that name, not its module.
    adjust = sys.modules["weir_cli.commands.adjust"]
    monkeypatch.setattr(adjust, "ratelimiter_door", Mock())
    monkeypatch.setattr(adjust, "ask", ask)
    CliRunner().invoke(app, ["limits", "adjust", "acme", told, "5", "--note", "why"])
    assert stub.AdjustLimit.call_args.args[0].limit_id == asked


async def test_limits_are_shown_with_their_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", TOKEN.get_secret_value())
    async with service(tmp_path) as served:
        await served.reserve("r")

        async def shown(*more: str) -> str:
            command = ["limits", "show", "acme", "--model", "m", "--address", served.address]
            result = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more])
            assert result.exit_code == 0, result.output
            return result.output

        lines = (await shown()).splitlines()
        heads, *rows = [line.split() for line in lines]
        assert heads[:6] == ["LIMIT", "COUNTS", "OF", "USED", "HELD", "LEFT"]
        response = json.loads(await shown("-o", "json"))
        told = {limit["limit_id"]: limit for limit in response["limits"]}
        assert [row[0] for row in rows] == list(told)
        held = {row[0]: row[4] for row in rows}
        assert held["tenant:acme/tpm"] == told["tenant:acme/tpm"]["held"] != "0"


async def test_tokens_in_flight_are_shown_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", TOKEN.get_secret_value())
    async with service(tmp_path, directory(in_flight(100))) as served:
        await served.reserve("r")

        async def told(*words: str) -> str:
            command = [*words, "--model", "m", "--address", served.address]
            result = await asyncio.to_thread(CliRunner().invoke, app, command)
            assert result.exit_code == 0, result.output
            return result.output

        _, row = [line.split() for line in (await told("limits", "show", "acme")).splitlines()]
        assert row[:6] == ["tenant:acme/in_flight", "in_flight_tokens", "100", "30", "30", "70"]
        large = await told("explain", "acme", "--prompt-tokens", "60", "--max-new-tokens", "11")
        assert "would now be refused" in large
        assert "allows 100 tokens in flight; 30 used, 71 requested; " in large
        fits = await told("explain", "acme", "--prompt-tokens", "60", "--max-new-tokens", "10")
        assert "would now be admitted" in fits
