"""Sums: by hour and by row the same, exact at any size, for budgets too."""

import asyncio
from collections import defaultdict
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select
from sqlalchemy.dialects import sqlite

from tests.ratelimiter.ledger.support import (
    ACME,
    HOUR_MS,
    MOST,
    NOW_MS,
    Book,
    charge,
    grant,
    open_book,
)
from weir_core.bucket import BucketShape
from weir_core.errors import InvalidField
from weir_ratelimiter.domain.calendar import Calendar, Unit
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.domain.ids import limit_key
from weir_ratelimiter.domain.limit import Kind, Layer, Limit, Resource
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.filters import RowFilter
from weir_ratelimiter.ledger.row_ids import first_id
from weir_ratelimiter.ledger.sums import Span, Sums, usage_sums
from weir_ratelimiter.ledger.tables import hours, rows
from weir_ratelimiter.ledger.verification import differences

# Half past an hour, as in Kolkata.
KOLKATA = Calendar(Unit.DAY, "Asia/Kolkata")
UTC_MONTH = Calendar(Unit.MONTH)


def budget(layer: Layer, owner: tuple[str, ...], resource: Resource, *, model: str = "") -> Limit:
    return Limit(
        key=limit_key(layer, owner, "budget"),
        layer=layer,
        kind=Kind.WINDOW,
        resource=resource,
        shape=BucketShape(10**9, 10**9, 1),
        knob="budget",
        model=model,
        calendar=UTC_MONTH,
    )


TENANT_TOKENS = budget(Layer.TENANT, ("acme",), Resource.TOKENS)


async def total(book: Book, span: Span, **where: str) -> Sums:
    async with book.ledger.database.reading() as connection:
        return (await usage_sums(connection, span, where)).get((), Sums())


async def test_sums_beyond_64_bits_are_exact(book: Book) -> None:
    count = 3_000
    events = [charge(f"r{n}", Usage(MOST, 0, MOST), price=Price(1, 0, 0)) for n in range(count)]
    await book.write(*events)
    sums = await total(book, Span())
    assert sums.prompt_tokens == sums.completion_tokens == sums.amount_nanos == count * MOST
    assert count * MOST > 2**63
    window = UTC_MONTH.window(NOW_MS)
    assert await book.ledger.budgets.used("acme", TENANT_TOKENS, window) == 2 * count * MOST
    assert await differences(book.ledger.database) == []


async def test_a_budget_counts_what_was_reserved_in_its_window(book: Book) -> None:
    window = KOLKATA.window(NOW_MS)
    assert window.start_ms % HOUR_MS == HOUR_MS // 2
    usage = Usage(10, 0, 1)
    await book.write(
        charge("before", usage, at_ms=window.start_ms - 1, settled_ms=window.start_ms + 5),
        charge("first", usage, at_ms=window.start_ms),
        charge("middle", usage, at_ms=window.start_ms + 7 * HOUR_MS),
        charge("last", usage, at_ms=window.end_ms - 1, settled_ms=window.end_ms + HOUR_MS),
        charge("after", usage, at_ms=window.end_ms),
        charge("last", Usage(20, 0, 1), previous=usage, at_ms=window.end_ms - 1),
    )
    assert await book.ledger.budgets.used("acme", TENANT_TOKENS, window) == 3 * 11 + 10


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        (budget(Layer.CLUSTER, (), Resource.TOKENS), 6 * 15),
        (TENANT_TOKENS, 5 * 15),
        (budget(Layer.TENANT, ("acme",), Resource.TOKENS, model="m"), 4 * 15),
        (budget(Layer.USER, ("acme", "bob"), Resource.TOKENS), 4 * 15),
        (budget(Layer.API_KEY, ("key1",), Resource.TOKENS), 4 * 15),
        (budget(Layer.MODEL, ("m",), Resource.TOKENS), 5 * 15),
        (budget(Layer.TENANT, ("acme",), Resource.REQUESTS), 4 + 3),
        (budget(Layer.TENANT, ("acme",), Resource.INPUT_TOKENS), 5 * 10),
        (budget(Layer.TENANT, ("acme",), Resource.OUTPUT_TOKENS), 5 * 5),
        (budget(Layer.TENANT, ("acme",), Resource.COST), 5 * (6 * 3 + 4 + 5 * 7)),
        (budget(Layer.TENANT, ("nobody",), Resource.TOKENS), 0),
    ],
)
async def test_a_budget_counts_its_owner_and_its_resource(
    book: Book, limit: Limit, used: int
) -> None:
    await book.write(
        charge("a"),
        charge("b", requests=3),
        charge("c", subject=Subject("acme", "eve", "key1", "m"), requests=0),
        charge("d", subject=Subject("acme", "bob", "key2", "m")),
        charge("e", subject=Subject("acme", "bob", "key1", "other"), requests=2),
        charge("f", subject=Subject("else", "bob", "key9", "m")),
        charge("refunded", Usage(), requests=0),
    )
    assert await book.ledger.budgets.used("acme", limit, UTC_MONTH.window(NOW_MS)) == used


async def test_grants_of_the_window_and_of_the_limit_lower_its_use(book: Book) -> None:
    window = UTC_MONTH.window(NOW_MS)
    key = TENANT_TOKENS.key
    await book.write(
        charge("r", Usage(100, 0, 0)),
        grant("one", key, 30),
        grant("two", key, -10),
        grant("other limit", f"{key}2", 1_000),
        grant("last month", key, 1_000, at_ms=window.start_ms - 1),
        grant("huge", limit_key(Layer.CLUSTER, (), "budget"), MOST),
    )
    assert await book.ledger.budgets.used("acme", TENANT_TOKENS, window) == 80
    cluster = budget(Layer.CLUSTER, (), Resource.TOKENS)
    assert await book.ledger.budgets.used("acme", cluster, window) == 100 - MOST


async def test_a_budget_counts_what_still_waits_in_the_outbox(book: Book) -> None:
    book.outbox.put(*(charge(f"r{number}", Usage(1, 0, 1)) for number in range(1_201)))
    used = await book.ledger.budgets.used("acme", TENANT_TOKENS, UTC_MONTH.window(NOW_MS))
    assert used == 2_402
    assert book.outbox.entries == []


async def test_the_last_minute_is_told_for_own_limits_alone(book: Book) -> None:
    recent = {"at_ms": NOW_MS - 100_000, "settled_ms": NOW_MS - 60_000}
    await book.write(
        charge("old", at_ms=NOW_MS - 100_000, settled_ms=NOW_MS - 60_001),
        charge("a", **recent),  # type: ignore[arg-type]
        charge("b", **recent, subject=Subject("acme", "eve", "key2", "m")),  # type: ignore[arg-type]
        charge("c", **recent, subject=Subject("else", "bob", "key1", "m")),  # type: ignore[arg-type]
    )
    limits = [
        TENANT_TOKENS,
        budget(Layer.USER, ("acme", "bob"), Resource.COST),
        budget(Layer.API_KEY, ("key1",), Resource.REQUESTS),
        budget(Layer.MODEL, ("m",), Resource.TOKENS),
    ]
    used = await book.ledger.budgets.used_last_minute(ACME, limits)
    assert used == {limits[0].key: 30, limits[1].key: 57, limits[2].key: 1}


async def test_more_groups_than_allowed_are_refused_with_the_number(book: Book) -> None:
    await book.write(*(charge(f"r{n}", at_ms=NOW_MS + n * HOUR_MS) for n in range(12)))
    async with book.ledger.database.reading() as connection:
        assert len(await usage_sums(connection, Span(), {}, ("hour",), most=12)) == 12
        with pytest.raises(InvalidField, match="at most 11 sums"):
            await usage_sums(connection, Span(), {}, ("hour",), most=11)


names = st.sampled_from(["a", "b", "A", "a/b", "é", ""])
subjects = st.builds(Subject, st.sampled_from(["t", "u"]), names, names, st.sampled_from("mn"))
counts = st.one_of(st.integers(0, 20), st.just(MOST))
usages = st.builds(lambda p, c, o: Usage(p, min(p, c), o), counts, counts, counts)
moments = st.integers(0, 5 * HOUR_MS).map(lambda ms: NOW_MS + ms)
prices = st.builds(Price, *[st.integers(0, 10**6)] * 3)
events = st.builds(
    lambda n, subject, usage, at, price, previous: charge(
        f"r{n}", usage, subject=subject, at_ms=at, price=price, previous=previous
    ),
    st.integers(0, 40),
    subjects,
    usages,
    moments,
    prices,
    st.one_of(st.none(), usages),
)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batches=st.lists(st.lists(events, max_size=12), max_size=5),
    ends=st.tuples(moments, moments).map(sorted),
)
def test_hours_are_rows_after_any_history(
    ledger_url: str, batches: list[list[LedgerEvent]], ends: list[int]
) -> None:
    asyncio.run(_history(ledger_url, batches, Span(ends[0], ends[1])))


async def _history(url: str, batches: list[list[LedgerEvent]], span: Span) -> None:
    async with open_book(url) as book:
        await _clear(book)
        expected = await _write_history(book, batches)
        assert await differences(book.ledger.database) == []
        within = [event for event in expected if span.from_ms <= event.created_ms < span.to_ms]
        sums = await total(book, span)
        assert sums.amount_nanos == sum(event.amount_nanos for event in within)
        assert sums.row_count == len(within)
        by_hour: dict[tuple[int, str], int] = defaultdict(int)
        for event in within:
            hour = event.created_ms - event.created_ms % HOUR_MS
            tokens = event.charged.prompt_tokens - event.previous.prompt_tokens
            by_hour[hour, event.subject.user_id] += tokens
        async with book.ledger.database.reading() as connection:
            groups = await usage_sums(connection, span, {}, ("hour", "user"))
        assert {group: sums.prompt_tokens for group, sums in groups.items()} == by_hour


async def _clear(book: Book) -> None:
    async with book.ledger.database.writing() as turn:
        await turn.connection.execute(delete(rows))
        await turn.connection.execute(delete(hours))


async def _write_history(book: Book, batches: list[list[LedgerEvent]]) -> list[LedgerEvent]:
    """Write batches, each also once more; returns what must be there."""
    kept: dict[tuple[str, str, int], LedgerEvent] = {}
    for batch in batches:
        for event in batch:
            key = (event.subject.tenant_id, event.reservation_id, event.kind)
            kept.setdefault(key, event)
        await book.write(*batch)
        await book.write(*batch)
    return list(kept.values())


def test_a_span_splits_into_whole_hours_and_its_ends() -> None:
    for start in (0, 1, HOUR_MS - 1, HOUR_MS):
        for end in (start, start + 1, HOUR_MS, 2 * HOUR_MS + 1, 5 * HOUR_MS):
            span = Span(start, end)
            whole, ends = span.split()
            covered = sum(part.to_ms - part.from_ms for part in (whole, *ends))
            assert covered == max(0, end - start) or span.empty
            assert whole.from_ms % HOUR_MS == whole.to_ms % HOUR_MS == 0


def test_the_window_of_kolkata_begins_at_its_midnight() -> None:
    start = datetime.fromtimestamp(KOLKATA.window(NOW_MS).start_ms / 1_000, UTC)
    assert (start.hour, start.minute) == (18, 30)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (RowFilter(), "sqlite_autoindex_ledger_rows_1 (id>?)"),
        (RowFilter(tenant_id="acme", from_ms=NOW_MS), "by_tenant (tenant_id=? AND id>?)"),
        (RowFilter(tenant_id="acme", request_id="r"), "by_request (request_id=? AND tenant_id=?"),
        (RowFilter(request_id="r"), "by_request (request_id=?"),
    ],
)
async def test_a_page_is_read_along_an_index(tmp_book: Book, wanted: RowFilter, index: str) -> None:
    statement = select(rows).where(rows.c.id > first_id(NOW_MS), *wanted.conditions())
    query = (
        statement.order_by(rows.c.id)
        .limit(100)
        .compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    )
    async with tmp_book.ledger.database.reading() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")
        assert index in str(plan.all())
