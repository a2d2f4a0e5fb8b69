"""What becomes of events: each a row, once, with its price and its times."""

import asyncio

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.ratelimiter.ledger.support import ACME, MOST, NOW_MS, Book, charge, grant, open_book
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.row_ids import NOTHING, RowIds
from weir_ratelimiter.ledger.verification import differences


def at(ms: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMilliseconds(ms)
    return stamp


async def test_a_charge_becomes_a_row_with_everything_that_it_says(book: Book) -> None:
    life = LifecycleRecord(
        worker_id="worker-1",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        accepted_time=at(NOW_MS),
        first_token_time=at(NOW_MS + 40),
        end_time=at(NOW_MS + 900),
    )
    await book.write(charge("r", Usage(10, 4, 5), price=Price(3, 1, 7), price_version=9, life=life))
    (row,) = await book.rows()
    assert (row.kind, row.tenant_id, row.user_id, row.api_key_id) == (1, "acme", "bob", "key1")
    assert (row.prompt_tokens, row.cached_prompt_tokens, row.completion_tokens) == (10, 4, 5)
    assert (row.price_version, row.input_nanos, row.cached_input_nanos, row.output_nanos) == (
        (9, 3, 1, 7)
    )
    assert row.amount_nanos == 6 * 3 + 4 * 1 + 5 * 7
    assert (row.worker_id, row.trace_id) == ("worker-1", "0af7651916cd43dd8448eb211c80319c")
    assert (row.ttft_ms, row.latency_ms) == (40, 900)
    assert (row.reserve_ms, row.settle_ms) == (NOW_MS, NOW_MS + 1_500)


async def test_a_late_correction_is_a_row_of_its_own_with_signed_differences(book: Book) -> None:
    await book.write(charge("r", Usage(10, 0, 50)))
    await book.write(charge("r", Usage(10, 4, 5), previous=Usage(10, 0, 50), requests=0))
    before, after = await book.rows()
    assert (before.kind, after.kind) == (EventKind.CHARGE, EventKind.ADJUST)
    assert (after.prompt_tokens, after.cached_prompt_tokens, after.completion_tokens) == (0, 4, -45)
    assert after.amount_nanos == 4 * (1 - 3) - 45 * 7
    assert await differences(book.ledger.database) == []


async def test_a_grant_says_to_which_limit_how_much_and_why(book: Book) -> None:
    await book.write(grant("adj-1", "tenant:acme/budget", -500, note="refund, ticket 7"))
    (row,) = await book.rows()
    assert (row.kind, row.limit_id, row.units) == (EventKind.GRANT, "tenant:acme/budget", -500)
    assert (row.note, row.amount_nanos) == ("refund, ticket 7", 0)


async def test_repeats_change_nothing(book: Book) -> None:
    events = [charge(f"r{number}") for number in range(20)]
    await book.write(*events)
    first = await book.rows()
    await book.write(*events, *events)
    assert await book.rows() == first
    assert await differences(book.ledger.database) == []


async def test_the_same_request_id_of_two_tenants_makes_two_rows(book: Book) -> None:
    other = ACME.__class__("other", "bob", "key2", "m")
    await book.write(charge("r"), charge("r", subject=other))
    assert [row.tenant_id for row in await book.rows()] == ["acme", "other"]


async def test_an_old_price_stays_with_what_was_reserved_under_it(book: Book) -> None:
    await book.write(
        charge("old", Usage(1, 0, 1), price=Price(2, 0, 2), price_version=1),
        charge("new", Usage(1, 0, 1), price=Price(5, 0, 5), price_version=2),
        charge("late", Usage(1, 0, 1), price=Price(2, 0, 2), price_version=1),
    )
    priced = [(row.price_version, row.amount_nanos) for row in await book.rows()]
    assert priced == [(1, 4), (2, 10), (1, 4)]


async def test_ids_grow_though_the_clock_goes_back(book: Book) -> None:
    await book.write(charge("a"), charge("b"))
    book.time.ms -= 3_600_000
    await book.write(charge("c"))
    rows = await book.rows()
    assert [row.request_id for row in rows] == ["a", "b", "c"]
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    assert all(row.id[14] == "7" for row in rows)


def test_ten_thousand_ids_of_one_millisecond_are_in_order() -> None:
    ids = RowIds(NOTHING, NOW_MS)
    made = [ids.next() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert RowIds(made[-1], NOW_MS).next() > made[-1]


@pytest.mark.parametrize("lifecycle", [b"", b"\xff\xff", b"\x0a\x05abc"])
async def test_an_unreadable_life_cycle_costs_no_charge(book: Book, lifecycle: bytes) -> None:
    event = charge("r")
    values = {name: getattr(event, name) for name in event.__struct_fields__}
    await book.write(event.__class__(**(values | {"lifecycle": lifecycle})))
    (row,) = await book.rows()
    assert (row.amount_nanos, row.ttft_ms, row.latency_ms) == (charge("r").amount_nanos, None, None)


async def test_hostile_text_is_kept_as_far_as_a_database_can(book: Book) -> None:
    note = "a\0b\r\n\"';--\u202e{}\N{PILE OF POO}"
    await book.write(grant("adj", "tenant:acme/x", 1, note=note))
    (row,) = await book.rows()
    assert row.note == note.replace("\0", "\N{REPLACEMENT CHARACTER}")


async def test_the_largest_numbers_are_exact(book: Book) -> None:
    usage = Usage(MOST, MOST, MOST)
    await book.write(*(charge(f"r{n}", usage, price=Price(0, 1, 0)) for n in range(3_000)))
    assert {row.amount_nanos for row in await book.rows()} == {MOST}
    assert await differences(book.ledger.database) == []


async def test_two_pumps_on_one_outbox_write_everything_once(book: Book, ledger_url: str) -> None:
    events = [charge(f"r{number}") for number in range(1_500)]
    async with open_book(ledger_url) as twin:
        book.outbox.put(*events)
        twin.outbox.put(*reversed(events))
        await asyncio.gather(book.ledger.pump.flush(), twin.ledger.pump.flush())
        rows = await book.rows()
        assert len({row.request_id for row in rows}) == len(rows) == 1_500
        assert await differences(twin.ledger.database) == []
