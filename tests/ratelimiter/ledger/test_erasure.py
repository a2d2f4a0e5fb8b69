"""Erasure: no name of a tenant is left anywhere, and every number stays."""

import asyncio
from pathlib import Path

from sqlalchemy import select

from tests.ratelimiter.ledger.support import Book, charge, grant, open_book
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.pseudonyms import Pseudonyms
from weir_ratelimiter.ledger.sums import Span, usage_sums
from weir_ratelimiter.ledger.tables import metadata
from weir_ratelimiter.ledger.verification import differences

EVE = Subject("acme", "eve", "key2", "m", "1")
OTHER = Subject("other", "bob", "key9", "m", "1")
LIFE = LifecycleRecord(worker_id="worker-1", trace_id="0af7651916cd43dd8448eb211c80319c")
NAMES = ("acme", "bob", "eve", "key1", "key2", "secret-request", "ticket 7", LIFE.trace_id)


async def fill(book: Book) -> None:
    await book.write(
        *(charge(f"secret-request-{n}", Usage(n, 0, 1), life=LIFE) for n in range(700)),
        *(charge(f"secret-request-eve-{n}", subject=EVE) for n in range(5)),
        charge("secret-request-1", Usage(9, 0, 9), previous=Usage(1, 0, 1)),
        charge("theirs", subject=OTHER),
        grant("adj", "tenant:acme/budget", 5, note="ticket 7"),
        charge("bad", settled_ms=2**62),
    )


async def everything(book: Book) -> str:
    """Every row of every table, as text."""
    text = ""
    async with book.ledger.database.reading() as connection:
        for table in metadata.sorted_tables:
            text += "\n".join(map(str, await connection.execute(select(table))))
    return text


async def totals(book: Book) -> object:
    async with book.ledger.database.reading() as connection:
        return await usage_sums(connection, Span(), {}, ("hour", "model"))


async def test_no_name_is_left_and_every_number_stays(book: Book) -> None:
    await fill(book)
    before = await totals(book)
    assert await book.ledger.eraser.erase("acme") == 707
    left = await everything(book)
    for name in NAMES:
        assert name not in left.replace("other", "").replace("'bob', 'key9'", "")
    assert "theirs" in left
    assert await totals(book) == before
    assert await differences(book.ledger.database) == []
    pseudonym = book.ledger.pseudonyms.tenant("acme")
    theirs = [row for row in await book.rows() if row.tenant_id == pseudonym]
    assert len(theirs) == 707
    assert len({row.user_id for row in theirs}) == 2
    assert {row.worker_id for row in theirs} == {"worker-1", ""}


async def test_the_file_holds_no_name_any_more(tmp_path: Path) -> None:
    async with open_book(f"sqlite:///{tmp_path}/ledger.sqlite") as book:
        await fill(book)
        assert b"secret-request" in _bytes(tmp_path)
        await book.ledger.eraser.erase("acme")
        for name in ("acme", "key2", "secret-request", "ticket 7", LIFE.trace_id):
            assert name.encode() not in _bytes(tmp_path), name


def _bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_erasing_again_changes_nothing_and_new_work_bears_its_name(book: Book) -> None:
    await fill(book)
    await book.ledger.eraser.erase("acme")
    rows = await book.rows()
    assert await book.ledger.eraser.erase("acme") == 0
    assert await book.rows() == rows
    await book.write(charge("new"))
    assert (await book.rows())[-1].tenant_id == "acme"
    # The second erasure joins the first: the same hour, the same pseudonym.
    assert await book.ledger.eraser.erase("acme") == 1
    assert {row.tenant_id for row in await book.rows()} == {
        "other",
        book.ledger.pseudonyms.tenant("acme"),
    }
    assert await differences(book.ledger.database) == []


async def test_a_late_repeat_of_an_erased_row_is_no_second_charge(book: Book) -> None:
    event = charge("secret-request")
    await book.write(event, charge("theirs", subject=OTHER))
    await book.ledger.eraser.erase("acme")
    await book.write(event, charge("new"))
    rows = await book.rows()
    assert [row.request_id for row in rows if row.tenant_id == "acme"] == ["new"]
    assert len(rows) == 3


async def test_writers_go_on_while_a_tenant_is_erased(book: Book) -> None:
    await fill(book)

    async def write() -> None:
        for number in range(30):
            await book.write(charge(f"new-{number}"), charge(f"o-{number}", subject=OTHER))

    await asyncio.gather(book.ledger.eraser.erase("acme"), write())
    assert await differences(book.ledger.database) == []
    assert len(await book.rows()) == 708 + 60


def test_pseudonyms_depend_on_secret_field_and_owner() -> None:
    one, two = Pseudonyms(b"one"), Pseudonyms(b"two")
    made = {
        one.tenant("acme"),
        two.tenant("acme"),
        one.tenant("acme2"),
        one.of("user_id", "acme", "bob"),
        one.of("api_key_id", "acme", "bob"),
        one.of("user_id", "other", "bob"),
    }
    assert len(made) == 6
    assert one.tenant("acme") == Pseudonyms(b"one").tenant("acme")
    assert one.of("note", "acme", "") == ""
