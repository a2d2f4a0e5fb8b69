"""A file whose digest is right may hold anything: nothing of it is believed unchecked."""

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.ratelimiter.ledger.support import LARGEST_ID, NOW_MS, Book, charge, open_book
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.ledger.backup import back_up
from weir_ratelimiter.ledger.backup_file import BadBackup
from weir_ratelimiter.ledger.restore import restore
from weir_ratelimiter.ledger.row_ids import first_id
from weir_ratelimiter.ledger.tables import head, rejects

YEAR_10000_MS = 253_402_300_800_000


async def with_record(folder: Path, table: str, **changes: Any) -> Path:
    """A back-up of a row and an event set aside; in the table's record, values are changed."""
    async with open_book(f"sqlite:///{folder}/origin.sqlite") as book:
        await book.write(charge("r"), charge("bad", settled_ms=2**62))
        await book.ledger.eraser.erase("other")
        await back_up(book.ledger.database, folder / "good")
    first, *records, _ = map(
        json.loads, gzip.decompress((folder / "good").read_bytes()).splitlines()
    )
    for record in records:
        if record[0] == table:
            record[1] = {**record[1], **changes}
    return signed(folder / "bad", first, records)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def signed(path: Path, first: dict[str, Any], records: list[Any]) -> Path:
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in (first, *records))
    footer = {"sha256": hashlib.sha256(lines).hexdigest(), "records": len(records)}
    path.write_bytes(gzip.compress(lines + json.dumps(footer).encode() + b"\n"))
    return path


@pytest.mark.parametrize(
    ("table", "column", "value", "why"),
    [
        ("ledger_rows", "id", LARGEST_ID, "s from now"),
        ("ledger_rows", "id", first_id(NOW_MS + 301_000), "301 s from now, at most 300 s"),
        ("ledger_rows", "id", "ffffffff-ffff-4fff-bfff-ffffffffffff", "not a UUIDv7"),
        ("ledger_rows", "id", first_id(NOW_MS - 1).upper(), "not a UUIDv7"),
        ("ledger_rows", "id", "zzzz", "not a UUIDv7"),
        ("ledger_rows", "id", "", "not a UUIDv7"),
        ("ledger_rows", "kind", 99, "of kind 99"),
        ("ledger_rows", "prompt_tokens", 2**63, "prompt_tokens"),
        ("ledger_rows", "amount_nanos", 2**200, "amount_nanos"),
        ("ledger_rows", "prompt_tokens", 1.5, "malformed"),
        ("ledger_rows", "reserve_ms", -1, "reserve_ms"),
        ("ledger_rows", "settle_ms", YEAR_10000_MS, "settle_ms"),
        ("ledger_rows", "ttft_ms", -1, "ttft_ms"),
        ("ledger_rows", "outcome", 2**15, "outcome"),
        ("ledger_rows", "tenant_id", "a\0b", "tenant_id that is no text"),
        ("ledger_rows", "tenant_id", None, "malformed"),
        ("ledger_rows", "zzz", 1, "no column 'zzz'"),
        ("ledger_rejects", "event", "not base64", "event is not base64"),
        ("ledger_rejects", "rejected_ms", "1", "rejected_ms is not in"),
        ("ledger_rejects", "cause", 1, "cause is no text"),
        ("ledger_erasures", "erased_ms", YEAR_10000_MS, "erased_ms is not in"),
        ("ledger_erasures", "zzz", 1, "no column 'zzz'"),
    ],
)
async def test_a_record_that_no_ledger_writes_changes_nothing(
    tmp_path: Path, table: str, column: str, value: Any, why: str
) -> None:
    path = await with_record(tmp_path, table, **{column: value})
    async with open_book(f"sqlite:///{tmp_path}/b.sqlite") as book:
        with pytest.raises(BadBackup, match=why) as refused:
            await restore(book.ledger.database, path, NOW_MS)
        assert "\n" not in str(refused.value)
        assert "b.sqlite" not in os.listdir(tmp_path)
        await book.write(charge("after"))
        assert [row.request_id for row in await book.rows()] == ["after"]


async def test_a_record_of_another_table_is_refused(tmp_path: Path) -> None:
    path = await with_record(tmp_path, "ledger_rows")
    first, *records, _ = lines_of(path)
    bad = signed(path, first, [*records, ["ledger_head", {"last_id": LARGEST_ID}]])
    async with open_book(f"sqlite:///{tmp_path}/b.sqlite") as book:
        with pytest.raises(BadBackup, match="'ledger_head', which is no table"):
            await restore(book.ledger.database, bad, NOW_MS)


async def test_a_clock_a_little_behind_restores(tmp_path: Path) -> None:
    path = await with_record(tmp_path, "ledger_rows")
    async with open_book(f"sqlite:///{tmp_path}/b.sqlite") as book:
        assert (await restore(book.ledger.database, path, NOW_MS - 299_000)).added == 1


async def test_events_wait_while_there_is_no_next_id(book: Book) -> None:
    await book.write(charge("before"))
    async with book.ledger.database.writing() as turn:
        await turn.connection.execute(update(head).values(last_id=LARGEST_ID))
    with pytest.raises(WeirError) as refused:
        await book.write(charge("a"), charge("b"))
    assert refused.value.reason is Reason.LIMITER_UNAVAILABLE
    assert "no id comes after last_id" in refused.value.message
    assert await book.ledger.pump._tried(book.ledger.pump._drain) is False
    status = await book.ledger.status()
    assert status.events == 2
    assert "no id comes after last_id" in status.error
    async with book.ledger.database.reading() as connection:
        assert list(await connection.execute(select(rejects))) == []
