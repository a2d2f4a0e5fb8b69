"""`weir ledger`: at the door of a served ledger, and at its database."""

import asyncio
import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from tests.ratelimiter.ledger.served import TOKEN, served_at
from tests.ratelimiter.ledger.support import MOST, NOW_MS, charge, open_book
from weir.ratelimiter.v1.ledger_service_pb2 import GetLedgerStatusResponse, UsageSum
from weir_cli.app import app
from weir_cli.errors import CommandError
from weir_cli.ledger_text import amount_text, status_text, usage_text
from weir_cli.moments import moment
from weir_cli.stack.state_dir import StateDir
from weir_ratelimiter.domain.usage import Usage

PAST_MS = 1_700_000_000_000


def run(*arguments: str) -> str:
    """Output of a command; raises what it raises."""
    result = CliRunner().invoke(app, ["ledger", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["ledger", *arguments])
    assert isinstance(result.exception, CommandError), result.output
    return str(result.exception)


async def weir(address: str, *arguments: str) -> tuple[int, str, str]:
    """As a process: gRPC has one event loop a process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "weir_cli", "ledger", *arguments, "--address", address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "WEIR_CLUSTER_TOKEN": TOKEN.get_secret_value()},
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, output.decode(), errors.decode()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    """The folder of a `weir up` whose ledger has three charges and an adjustment."""
    made = StateDir(tmp_path / "state")
    journal = str(made.path / "journal")
    made.write_private("ratelimiter.yaml", yaml.safe_dump({"journal": journal}))
    asyncio.run(_fill(f"sqlite:///{journal}.ledger.sqlite"))
    yield made
    made.release()


async def _fill(url: str) -> None:
    async with open_book(url) as book:
        # Rows of after today are not restored.
        book.time.ms = PAST_MS
        await book.write(
            *(charge(f"r{number}") for number in range(3)),
            charge("r1", Usage(1, 0, 1), previous=Usage(10, 4, 5)),
        )


async def test_a_served_ledger_is_read_exported_and_erased(tmp_path: Path) -> None:
    async with open_book(f"sqlite:///{tmp_path}/l.sqlite") as book, served_at(book) as address:
        book.outbox.put(*(charge(f"r{number}") for number in range(3)), charge("big", Usage(MOST)))
        ends = ["--from", "2027-01-01", "--to", "2028-01-01T00:00:00+02:00"]
        told = await asyncio.gather(
            weir(address, "usage", "--by", "tenant,model", *ends),
            weir(address, "export", "--format", "csv", "--tenant", "acme"),
            weir(address, "status", "-o", "json"),
            weir(address, "usage", "--by", "week"),
        )
        assert [code for code, _, _ in told] == [0, 0, 0, 1], told
        usage, exported, status, bad = (output + errors for _, output, errors in told)
        assert usage.splitlines()[1].split()[:4] == ["acme", "m", "4", str(MOST + 30)]
        lines = list(csv.DictReader(io.StringIO(exported, newline="")))
        assert [line["request_id"] for line in lines] == ["r0", "r1", "r2", "big"]
        assert json.loads(status)["outbox_most"] == "1000"
        assert re.fullmatch(r"error: .*group_by.*\n", bad)
        code, output, _ = await weir(address, "erase", "acme", "--yes")
        assert (code, output.split(" ")[0]) == (0, "4")
        assert {row.tenant_id for row in await book.rows()} == {output.split("; ")[1].split()[0]}


def test_an_erasure_wants_to_be_meant() -> None:
    assert "add --yes" in refused("erase", "acme", "--address", "127.0.0.1:1")


def test_backup_restore_and_verify_of_a_stacks_ledger(state: StateDir, tmp_path: Path) -> None:
    folder, file = str(state.path), str(tmp_path / "ledger.jsonl.gz")
    copy = f"sqlite:///{tmp_path}/copy.sqlite"
    assert run("backup", file, "--state-dir", folder) == f"4 rows written to {file}\n"
    assert "exists; name another file, or replace it with --force" in refused(
        "backup", file, "--state-dir", folder
    )
    assert run("backup", file, "--force", "--state-dir", folder).startswith("4 rows")
    assert run("restore", file, "--url", copy).startswith("4 rows added, 0 were there")
    assert run("restore", file, "--url", copy).startswith("0 rows added, 4 were there")
    assert run("verify", "--url", copy) == "every sum is that of its rows\n"


def test_verify_tells_which_sum_is_wrong(state: StateDir) -> None:
    ledger = f"{state.path}/journal.ledger.sqlite"
    engine = create_engine(f"sqlite:///{ledger}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE usage_hours SET amount_nanos_lo = amount_nanos_lo + 1"))
    engine.dispose()
    result = CliRunner().invoke(app, ["ledger", "verify", "--url", f"sqlite:///{ledger}"])
    assert str(result.exception) == "1 sums are not those of their rows"
    assert "tenant 'acme' user 'bob' key 'key1' model 'm': amount_nanos 125, rows 124" in (
        result.stdout
    )


def test_what_cannot_be_done_is_one_line_that_says_why(state: StateDir, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"nothing")
    missing = f"sqlite:///{tmp_path}/none.sqlite"
    assert "no ledger at" in refused("verify", "--url", missing)
    assert "no ledger at" in refused("backup", str(tmp_path / "x"), "--url", missing)
    assert "was not restored: it cannot be read" in refused("restore", str(bad), "--url", missing)
    assert "--url is no URL" in refused("verify", "--url", "none")
    assert "is not the --state-dir" in refused("verify", "--state-dir", str(tmp_path))
    folder = str(state.path)
    assert "No such file" in refused("backup", f"{tmp_path}/no/dir", "--state-dir", folder)
    unreachable = f"postgresql://weir:secret@/x?host={tmp_path}"
    told = refused("verify", "--url", unreachable)
    assert "secret" not in told
    assert "the ledger or the file:" in told


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [(0, "0"), (57, "0.000000057"), (-12_500_000_000, "-12.5"), (MOST, "9007199.254740991")],
)
def test_amounts_are_shown_exactly(nanos: int, shown: str) -> None:
    assert amount_text(nanos) == shown


def test_sums_and_status_for_a_person() -> None:
    entry = UsageSum(tenant_id="acme", requests=2, amount_nanos=1_500_000_000)
    entry.from_time.FromMilliseconds(NOW_MS - NOW_MS % 3_600_000)
    assert usage_text(["hour", "user"], [entry]).splitlines()[1].split() == [
        *("2027-01-15T08:00Z", "-", "2", "0", "0", "0", "1.5")
    ]
    behind = GetLedgerStatusResponse(
        outbox_events=7, outbox_age_ms=2_500, outbox_most=100, last_error="OSError"
    )
    assert status_text(behind).splitlines() == [
        "waiting: 7 of at most 100 events, the oldest for 2.5 s",
        "last write: never",
        "failing: OSError",
    ]
    away = GetLedgerStatusResponse(outbox_error="the store is away")
    assert status_text(away).splitlines()[0] == "waiting: not known: the store is away"


def test_moments_have_a_zone_or_are_utc() -> None:
    assert moment("--from", "") is None
    assert str(moment("--from", "1970-01-02")) == "seconds: 86400\n"
    assert str(moment("--from", "1970-01-02T01:00+01:00")) == "seconds: 86400\n"
    with pytest.raises(CommandError, match="--to is 'soon'"):
        moment("--to", "soon")
