"""Back-up and restore: the same ledger again, or nothing."""

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.ratelimiter.ledger.support import MOST, NOW_MS, Book, charge, grant, open_book
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.backup import back_up
from weir_ratelimiter.ledger.backup_file import BadBackup
from weir_ratelimiter.ledger.restore import restore
from weir_ratelimiter.ledger.tables import hours, rejects
from weir_ratelimiter.ledger.verification import differences


async def fill(book: Book, count: int = 1_100) -> None:
    await book.write(
        *(charge(f"r{number}", Usage(number, 0, 1)) for number in range(count)),
        charge("r0", Usage(7, 0, 1), previous=Usage(0, 0, 1)),
        charge("huge", Usage(MOST, 0, MOST)),
        grant("adj", "tenant:acme/budget", 5, note="a\nb\u2028\N{PILE OF POO}"),
    )


async def sums(book: Book) -> list[tuple[object, ...]]:
    async with book.ledger.database.reading() as connection:
        found = await connection.execute(select(hours).order_by(*hours.primary_key.columns))
        return [tuple(row) for row in found]


async def test_a_restored_ledger_is_the_same(book: Book, tmp_path: Path) -> None:
    await fill(book)
    path = tmp_path / "backup.jsonl.gz"
    assert await back_up(book.ledger.database, path) == 1_103
    assert path.stat().st_mode & 0o777 == 0o600
    async with open_book(f"sqlite:///{tmp_path}/restored.sqlite") as restored:
        done = await restore(restored.ledger.database, path, NOW_MS)
        assert (done.added, done.kept) == (1_103, 0)
        assert await restored.rows() == await book.rows()
        assert await sums(restored) == await sums(book)
        # Rows that are written afterwards come after those that were restored.
        await restored.write(charge("after"))
        assert (await restored.rows())[-1].request_id == "after"


async def test_a_restore_into_the_same_ledger_adds_what_is_missing(
    book: Book, tmp_path: Path
) -> None:
    await fill(book, 10)
    path = tmp_path / "backup"
    await back_up(book.ledger.database, path)
    await book.write(charge("later"))
    before = await book.rows()
    for _ in range(2):
        done = await restore(book.ledger.database, path, NOW_MS)
        assert (done.added, done.kept) == (0, 13)
    assert await book.rows() == before
    assert await differences(book.ledger.database) == []


async def test_what_was_erased_after_the_backup_stays_erased(book: Book, tmp_path: Path) -> None:
    await fill(book, 10)
    path = tmp_path / "backup"
    await back_up(book.ledger.database, path)
    await book.ledger.eraser.erase("acme")
    done = await restore(book.ledger.database, path, NOW_MS)
    assert (done.added, done.kept) == (0, 13)
    assert "acme" not in {row.tenant_id for row in await book.rows()}


async def test_events_that_were_set_aside_are_in_it(book: Book, tmp_path: Path) -> None:
    await book.write(charge("bad", settled_ms=2**62))
    await back_up(book.ledger.database, tmp_path / "backup")
    async with open_book(f"sqlite:///{tmp_path}/restored.sqlite") as restored:
        await restore(restored.ledger.database, tmp_path / "backup", NOW_MS)
        async with restored.ledger.database.reading() as connection:
            (kept,) = await connection.execute(select(rejects))
    assert kept.tenant_id == "acme"


def changed(whole: bytes) -> bytes:
    return whole.replace(b'"amount_nanos":', b'"amount_nanos":1', 1)


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def without_a_row(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join(lines[:3] + lines[4:])


def signed_again(lines: list[bytes]) -> bytes:
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    footer = b'{"sha256":"%s","records":%d}\n' % (digest.encode(), len(lines) - 1)
    return b"".join([*lines, footer])


def fewer_than_said(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)[:-1]
    return signed_again(lines[:3] + lines[4:])


def of_a_later_schema(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)[:-1]
    return signed_again([lines[0].replace(b'"schema":"0001"', b'"schema":"9999"'), *lines[1:]])


def no_rows_of_ours(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)[:-1]
    return signed_again([lines[0], *(b'["ledger_rows",{"id":1}]\n' for _ in lines[1:])])


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (changed, "checksum"),
        (cut, "checksum|no end"),
        (without_a_row, "checksum"),
        (fewer_than_said, "has 12 rows and says 13"),
        (of_a_later_schema, "schema 9999"),
        (no_rows_of_ours, "a row is malformed"),
        (lambda _: b"", "no back-up"),
        (lambda _: b'{"format":"other"}\n', "no back-up"),
    ],
)
async def test_a_damaged_or_foreign_file_changes_nothing(
    tmp_path: Path, damage: Callable[[bytes], bytes], why: str
) -> None:
    async with open_book(f"sqlite:///{tmp_path}/a.sqlite") as book:
        await fill(book, 10)
        await back_up(book.ledger.database, tmp_path / "backup")
    whole = gzip.decompress((tmp_path / "backup").read_bytes())
    (tmp_path / "bad").write_bytes(gzip.compress(damage(whole)))
    async with open_book(f"sqlite:///{tmp_path}/b.sqlite") as empty:
        with pytest.raises(BadBackup, match=why):
            await restore(empty.ledger.database, tmp_path / "bad", NOW_MS)
        assert await empty.rows() == []
        assert await sums(empty) == []


async def test_a_file_that_is_cut_or_no_archive_is_refused(tmp_path: Path) -> None:
    async with open_book(f"sqlite:///{tmp_path}/a.sqlite") as book:
        await fill(book, 10)
        await back_up(book.ledger.database, tmp_path / "backup")
        whole = (tmp_path / "backup").read_bytes()
        for bad in (whole[:-20], whole[:100], b"not an archive"):
            (tmp_path / "bad").write_bytes(bad)
            with pytest.raises(BadBackup, match="it cannot be read"):
                await restore(book.ledger.database, tmp_path / "bad", NOW_MS)


async def test_a_ledger_with_other_numbers_refuses_the_file(tmp_path: Path) -> None:
    async with open_book(f"sqlite:///{tmp_path}/a.sqlite") as book:
        await book.write(charge("same", Usage(1, 0, 1)), charge("only here"))
        await back_up(book.ledger.database, tmp_path / "backup")
    async with open_book(f"sqlite:///{tmp_path}/b.sqlite") as other:
        await other.write(charge("same", Usage(2, 0, 2)))
        with pytest.raises(BadBackup, match="has other numbers"):
            await restore(other.ledger.database, tmp_path / "backup", NOW_MS)
        assert [row.request_id for row in await other.rows()] == ["same"]
