"""The pump in bad times: databases that go, events that cannot be written, kill -9."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text

from tests.ratelimiter.ledger.support import NOW_MS, Book, ListOutbox, charge, open_book
from tests.ratelimiter.postgres import running_postgres
from weir_core.database.file import DatabaseMoved
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.tables import metadata, rejects
from weir_ratelimiter.ledger.url import parse_url
from weir_ratelimiter.ledger.verification import differences

DEADLINE_S = 20.0
REFUSES = "ledger_rows_refuse"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(book: Book) -> AsyncIterator[None]:
    await book.ledger.start()
    try:
        yield
    finally:
        await book.ledger.pump.stop()


def sample(book: Book, name: str, **labels: str) -> float | None:
    return book.registry.get_sample_value(f"weir_ratelimiter_ledger_{name}", labels)


async def rejected(book: Book) -> list[Any]:
    async with book.ledger.database.reading() as connection:
        return list(await connection.execute(select(rejects)))


async def test_events_are_written_and_then_acknowledged(book: Book) -> None:
    async with running(book):
        book.outbox.put(*(charge(f"r{number}") for number in range(1_201)))
        await until(lambda: not book.outbox.entries)
        await until(lambda: sample(book, "lag_events") == 0)
    assert len(await book.rows()) == 1_201
    assert sample(book, "rows_total", kind="charge") == 1_201
    status = await book.ledger.status()
    assert (status.events, status.age_ms, status.error) == (0, 0, "")
    assert status.written_ms == book.time.ms


async def test_what_waits_at_the_end_is_written(book: Book) -> None:
    await book.ledger.start()
    book.outbox.put(*(charge(f"r{number}") for number in range(700)))
    await book.ledger.pump.stop()
    assert book.outbox.entries == []
    assert len(await book.rows()) == 700


async def test_a_kill_between_write_and_acknowledgement_charges_once(ledger_url: str) -> None:
    outbox = ForgetfulOutbox()
    async with open_book(ledger_url, outbox) as book:
        outbox.put(*(charge(f"r{number}") for number in range(600)))
        with pytest.raises(ConnectionResetError):
            await book.ledger.pump._drain()
        assert len(outbox.entries) == 600
    async with open_book(ledger_url, outbox) as book:
        assert len(await book.rows()) == 500
        await book.ledger.pump.flush()
        assert outbox.entries == []
        assert len(await book.rows()) == 600
        assert await differences(book.ledger.database) == []


class ForgetfulOutbox(ListOutbox):
    """Dies at the first acknowledgement, as a process does."""

    def __init__(self) -> None:
        super().__init__()
        self._died = False

    async def acknowledge(self, ids: Any) -> None:
        if not self._died:
            self._died = True
            raise ConnectionResetError
        await super().acknowledge(ids)


async def _refuse(book: Book, request_id: str) -> None:
    """Have the database refuse the rows of a request."""
    if book.ledger.database.sqlite:
        statement = (
            f"CREATE TRIGGER {REFUSES} BEFORE INSERT ON ledger_rows "
            f"WHEN NEW.request_id = '{request_id}' "
            "BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed'); END"
        )
    else:
        check = f"CHECK (request_id <> '{request_id}')"
        statement = f"ALTER TABLE ledger_rows ADD CONSTRAINT {REFUSES} {check}"
    async with book.ledger.database.writing() as turn:
        await turn.connection.execute(text(statement))


async def _refuse_nothing(book: Book) -> None:
    statement = f"DROP TRIGGER {REFUSES}"
    if not book.ledger.database.sqlite:
        statement = f"ALTER TABLE ledger_rows DROP CONSTRAINT {REFUSES}"
    async with book.ledger.database.writing() as turn:
        await turn.connection.execute(text(statement))


def poisons() -> list[LedgerEvent]:
    good = charge("poison")
    return [
        msgspec.structs.replace(good, settled_ms=2**62),
        msgspec.structs.replace(good, price_version=2**63),
        msgspec.structs.replace(good, outcome=40_000),
        msgspec.structs.replace(good, created_ms=-1),
    ]


@pytest.mark.parametrize("number", range(4))
async def test_an_event_that_cannot_be_written_holds_up_no_other(book: Book, number: int) -> None:
    poison = poisons()[number]
    events = [charge(f"r{number}") for number in range(20)]
    await book.write(*events[:7], poison, *events[7:])
    await book.write(poison)
    assert book.outbox.entries == []
    assert len(await book.rows()) == 20
    (kept,) = await rejected(book)
    assert kept.tenant_id == "acme"
    assert msgspec.msgpack.decode(kept.event, type=LedgerEvent) == poison
    assert sample(book, "errors_total", cause="rejected") == 2
    assert await differences(book.ledger.database) == []


async def test_another_charge_of_a_known_reservation_is_seen(book: Book) -> None:
    other = charge("r", Usage(20, 4, 5))
    await book.write(charge("r"), charge("s"))
    await book.write(charge("r"), charge("s"))
    assert (sample(book, "duplicates_total"), await rejected(book)) == (2, [])
    await book.write(charge("t"), other, charge("u"))
    await book.write(other)
    rows = await book.rows()
    assert [row.request_id for row in rows] == ["r", "s", "t", "u"]
    (kept,) = await rejected(book)
    assert msgspec.msgpack.decode(kept.event, type=LedgerEvent) == other
    assert f"row {rows[0].id} is of the same reservation" in kept.cause
    assert "prompt_tokens 10, here 20" in kept.cause
    assert sample(book, "duplicates_total") == 4
    assert sample(book, "errors_total", cause="rejected") == 2
    assert await differences(book.ledger.database) == []


async def test_two_charges_of_one_reservation_in_one_batch_are_seen(book: Book) -> None:
    await book.write(charge("r"), charge("r", at_ms=NOW_MS + 1))
    assert [row.reserve_ms for row in await book.rows()] == [NOW_MS]
    (kept,) = await rejected(book)
    assert f"reserve_ms {NOW_MS}, here {NOW_MS + 1}" in kept.cause


async def test_another_charge_of_an_erased_tenant_is_seen(book: Book) -> None:
    await book.write(charge("r"))
    await book.ledger.eraser.erase("acme")
    await book.write(charge("r"))
    assert await rejected(book) == []
    await book.write(charge("r", Usage(20, 4, 5)))
    assert len(await rejected(book)) == 1
    assert len(await book.rows()) == 1


async def test_a_row_that_the_database_refuses_is_set_aside_too(book: Book) -> None:
    await book.ledger.database.ready()
    await _refuse(book, "bad")
    await book.write(charge("a"), charge("bad"), charge("b"))
    assert [row.request_id for row in await book.rows()] == ["a", "b"]
    assert len(await rejected(book)) == 1


async def test_what_was_set_aside_is_tried_again_at_the_next_start(book: Book) -> None:
    """The database refuses a request until it is put right; a contradiction stays one."""
    await book.ledger.database.ready()
    await _refuse(book, "bad")
    await book.write(charge("a"), charge("bad"), charge("a", Usage(20, 4, 5)))
    assert len(await rejected(book)) == 2
    async with running(book):
        book.outbox.put(charge("b"))
        await until(lambda: not book.outbox.entries)
    assert [row.request_id for row in await book.rows()] == ["a", "b"]
    assert len(await rejected(book)) == 2
    await _refuse_nothing(book)
    async with running(book):
        book.outbox.put(charge("c"))
        await until(lambda: not book.outbox.entries)
    assert [row.request_id for row in await book.rows()] == ["a", "b", "bad", "c"]
    (kept,) = await rejected(book)
    assert "prompt_tokens 10, here 20" in kept.cause
    assert await differences(book.ledger.database) == []


async def test_a_database_that_goes_and_comes_back_loses_nothing() -> None:
    with running_postgres() as server:
        async with open_book(await server.new_database()) as book, running(book):
            book.outbox.put(charge("before"))
            await until(lambda: not book.outbox.entries)
            server.kill()
            book.outbox.put(*(charge(f"r{number}") for number in range(50)))
            await until(lambda: bool(book.ledger.pump.last_error))
            with pytest.raises(WeirError) as refused:
                await book.ledger.pump.flush()
            assert refused.value.reason is Reason.LIMITER_UNAVAILABLE
            status = await book.ledger.status()
            assert (status.events, status.written_ms) == (50, None)
            assert status.error
            assert (sample(book, "errors_total", cause="database") or 0) >= 1
            server.start()
            await until(lambda: not book.outbox.entries)
            assert len(await book.rows()) == 51
            await until(lambda: book.ledger.pump.last_error == "")


async def test_a_start_without_the_database_waits_for_it() -> None:
    with running_postgres() as server:
        url = await server.new_database()
        server.kill()
        async with open_book(url) as book, running(book):
            book.outbox.put(charge("r"))
            await until(lambda: bool(book.ledger.pump.last_error))
            server.start()
            await until(lambda: not book.outbox.entries)
            assert len(await book.rows()) == 1


async def test_a_flush_covers_every_event_of_before_it(book: Book) -> None:
    async def put_and_flush(number: int) -> None:
        book.outbox.put(charge(f"r{number}", Usage(1, 0, 1)))
        await book.ledger.pump.flush()
        known = {row.request_id for row in await book.rows()}
        assert f"r{number}" in known

    await asyncio.gather(*map(put_and_flush, range(40)))


async def test_two_ledgers_start_at_once_on_an_empty_database(ledger_url: str) -> None:
    async with open_book(ledger_url) as one, open_book(ledger_url) as two:
        await asyncio.gather(one.ledger.database.ready(), two.ledger.database.ready())
        await asyncio.gather(one.write(charge("a")), two.write(charge("b")))
        assert {row.request_id for row in await one.rows()} == {"a", "b"}


async def test_a_database_of_a_later_release_is_refused_by_name(ledger_url: str) -> None:
    async with open_book(ledger_url) as book:
        await book.write(charge("r"))
        async with book.ledger.database.writing() as turn:
            await turn.connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    async with open_book(ledger_url) as book:
        with pytest.raises(StartupError, match=r"of another release.*change ledger_url"):
            await book.ledger.start()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://u:secret@h/d", "of the kind 'mysql'"),
        ("no url", "is no URL"),
        ("sqlite://", "names no database"),
        ("sqlite:///:memory:", "names no database"),
        ("postgresql://u:secret@h", "names no database"),
        ("postgresql://u:secret@h:x/d", "is no URL"),
        ("postgresql://u:secret@h:99999/d", "names port 99999"),
        ("postgresql://u:secret@h/d?timeout=x", "has the option 'timeout'"),
        ("postgresql://u:secret@h/d?ssl=secret", "has a bad ssl"),
        ("sqlite:////l.sqlite?uri=true", "has the option 'uri'"),
    ],
)
def test_a_bad_url_says_what_it_must_be_and_no_password(url: str, why: str) -> None:
    with pytest.raises(StartupError) as refused:
        parse_url(url)
    assert why in str(refused.value)
    assert "ledger_url" in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_a_file_of_the_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    async with open_book(f"sqlite:///{tmp_path}/deep/ledger.sqlite") as book:
        await book.write(charge("r"))
        for file in (tmp_path / "deep").iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file


@pytest.mark.parametrize("again", [False, True])
async def test_a_file_that_is_moved_takes_no_event_with_it(tmp_path: Path, again: bool) -> None:
    file, aside = tmp_path / "ledger.sqlite", tmp_path / "aside"
    async with open_book(f"sqlite:///{file}") as book:
        await book.write(charge("before"))
        os.rename(file, aside)
        if again:
            os.close(os.open(file, os.O_CREAT))
        async with running(book):
            book.outbox.put(charge("a"), charge("b"))
            await until(lambda: bool(book.ledger.pump.last_error))
            status = await book.ledger.status()
            assert (status.events, status.written_ms) == (2, None)
            assert "ledger.sqlite" in status.error
            assert "put the file back" in status.error
            assert again or not os.access(file, os.F_OK)
            os.rename(aside, file)
            await until(lambda: not book.outbox.entries)
        assert [row.request_id for row in await book.rows()] == ["before", "a", "b"]


async def test_a_file_that_another_holds_is_named_as_the_cause(tmp_path: Path) -> None:
    async with (
        open_book(f"sqlite:///{tmp_path}/ledger.sqlite") as book,
        open_book(f"sqlite:///{tmp_path}/ledger.sqlite") as twin,
    ):
        async with twin.ledger.database.writing():
            with pytest.raises(WeirError, match="SQLITE_BUSY") as refused:
                await book.write(charge("r"))
        assert refused.value.reason is Reason.LIMITER_UNAVAILABLE
        assert "SQLITE_BUSY" in (await book.ledger.status()).error
        await book.ledger.pump.flush()
        assert len(await book.rows()) == 1


async def test_a_file_that_goes_while_it_is_written_keeps_no_row(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    async with open_book(f"sqlite:///{file}") as book:
        await book.write(charge("before"))
        with pytest.raises(DatabaseMoved):
            async with book.ledger.database.writing():
                os.unlink(file)


async def test_the_schema_of_the_migrations_is_that_of_the_tables(book: Book) -> None:
    await book.ledger.database.ready()
    async with book.ledger.database.reading() as connection:
        found = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), metadata)
        )
    assert found == []
