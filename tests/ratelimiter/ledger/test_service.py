"""The ledger over real gRPC: pages, sums, files, erasure, status, and what is refused."""

import json
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import update

from tests.ratelimiter.ledger.served import served
from tests.ratelimiter.ledger.support import HOUR_MS, LARGEST_ID, MOST, NOW_MS, Book, charge, grant
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT
from weir.ratelimiter.v1 import ledger_service_pb2 as pb
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.tables import head

EVE = Subject("acme", "eve", "key2", "m2", "1")
OTHER = Subject("other", "bob", "key9", "m", "1")


def at(ms: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMilliseconds(ms)
    return stamp


def of_rows(**wanted: Any) -> pb.ListRowsRequest:
    return pb.ListRowsRequest(filter=pb.RowFilter(**wanted))


async def refusal(call: Any) -> WeirError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)


async def listed(stub: Any, size: int, **wanted: Any) -> list[pb.LedgerRow]:
    rows: list[pb.LedgerRow] = []
    token = ""
    while True:
        request = pb.ListRowsRequest(
            filter=pb.RowFilter(**wanted), page_size=size, page_token=token
        )
        page = await stub.ListRows(request)
        rows += page.rows
        token = page.next_page_token
        if not token:
            return rows


async def test_a_row_on_the_wire_is_the_row_that_was_written(book: Book) -> None:
    async with served(book) as stub:
        await book.write(charge("r"), grant("adj", "tenant:acme/x", -3, note="why"))
        row, given = await listed(stub, 10)
        assert (row.kind, row.request_id) == (pb.LEDGER_ROW_KIND_CHARGE, "r")
        assert (row.subject.tenant_id, row.subject.model_version) == ("acme", "1")
        assert (row.usage.prompt_tokens, row.usage.total_tokens) == (10, 15)
        assert (row.usage_quality, row.amount_nanos) == (USAGE_QUALITY_EXACT, 57)
        assert row.reserve_time.ToMilliseconds() == NOW_MS
        assert not row.HasField("ttft_ms")
        assert (given.kind, given.limit_id) == (pb.LEDGER_ROW_KIND_GRANT, "tenant:acme/x")
        assert (given.units, given.note) == (-3, "why")


async def test_pages_hold_each_row_once_while_rows_are_written(book: Book) -> None:
    async with served(book) as stub:
        await book.write(*(charge(f"r{number}") for number in range(25)))
        first = await stub.ListRows(pb.ListRowsRequest(page_size=10))
        await book.write(*(charge(f"s{number}", at_ms=NOW_MS - 10**9) for number in range(5)))
        second = pb.ListRowsRequest(page_size=10, page_token=first.next_page_token)
        again = await stub.ListRows(second)
        assert await stub.ListRows(second) == again
        rest = await stub.ListRows(
            pb.ListRowsRequest(page_size=100, page_token=again.next_page_token)
        )
        names = [row.request_id for page in (first, again, rest) for row in page.rows]
        assert names == [f"r{number}" for number in range(25)] + [f"s{n}" for n in range(5)]
        assert rest.next_page_token == ""


async def test_filters_choose_rows(book: Book) -> None:
    async with served(book) as stub:
        await book.write(
            charge("a"), charge("b", subject=EVE), charge("c", subject=OTHER, settled_ms=NOW_MS)
        )
        chosen: list[tuple[dict[str, Any], str]] = [
            ({}, "abc"),
            ({"tenant_id": "acme"}, "ab"),
            ({"api_key_id": "key2"}, "b"),
            ({"model": "m"}, "ac"),
            ({"request_id": "c"}, "c"),
            ({"tenant_id": "acme", "request_id": "c"}, ""),
            ({"from_time": at(NOW_MS + 1_500)}, "ab"),
            ({"from_time": Timestamp(seconds=NOW_MS // 1_000, nanos=456_000_001)}, "ab"),
            ({"from_time": at(NOW_MS), "to_time": at(NOW_MS + 1)}, "c"),
        ]
        for wanted, names in chosen:
            assert "".join(row.request_id for row in await listed(stub, 1, **wanted)) == names


async def test_usage_by_every_group_sums_to_the_same(book: Book) -> None:
    async with served(book) as stub:
        await book.write(
            *(charge(f"r{n}", at_ms=NOW_MS + n * HOUR_MS) for n in range(30)),
            *(charge(f"e{n}", subject=EVE) for n in range(3)),
            charge("o", subject=OTHER),
            charge("o", Usage(1, 0, 1), previous=Usage(10, 4, 5), subject=OTHER),
            grant("adj", "tenant:acme/x", 5),
        )
        (total,) = (await stub.GetUsage(pb.GetUsageRequest())).sums
        assert (total.requests, total.amount_nanos) == (34, 33 * 57 + 10)
        assert total.usage.total_tokens == 33 * 15 + 2
        for by in (
            ["hour"],
            ["day"],
            ["tenant"],
            ["user"],
            ["api_key"],
            ["model"],
            ["hour", "model"],
        ):
            sums = (await stub.GetUsage(pb.GetUsageRequest(group_by=by))).sums
            assert sum(entry.requests for entry in sums) == 34
            assert sum(entry.amount_nanos for entry in sums) == total.amount_nanos
        by_tenant = (await stub.GetUsage(pb.GetUsageRequest(group_by=["tenant", "user"]))).sums
        assert [(entry.tenant_id, entry.user_id, entry.requests) for entry in by_tenant] == [
            ("acme", "bob", 30),
            ("acme", "eve", 3),
            ("other", "bob", 1),
        ]
        by_day = (await stub.GetUsage(pb.GetUsageRequest(group_by=["day"]))).sums
        assert len(by_day) == len({_day(NOW_MS + n * HOUR_MS) for n in range(30)})
        assert by_day[0].from_time.ToDatetime(UTC) == _day(NOW_MS)


def _day(ms: int) -> datetime:
    moment = datetime.fromtimestamp(ms / 1_000, UTC)
    return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)


async def test_usage_of_any_span_is_by_the_time_of_reservation(book: Book) -> None:
    async with served(book) as stub:
        await book.write(*(charge(f"r{n}", at_ms=NOW_MS + n * 600_000) for n in range(40)))
        for first, last in ((0, 40), (1, 39), (3, 4), (7, 30), (5, 5)):
            start, end = NOW_MS + first * 600_000, NOW_MS + last * 600_000 + 1
            wanted = pb.RowFilter(from_time=at(start), to_time=at(end))
            sums = (await stub.GetUsage(pb.GetUsageRequest(filter=wanted))).sums
            assert sum(entry.requests for entry in sums) == min(last, 39) - first + 1
        one = pb.RowFilter(request_id="r7")
        (entry,) = (await stub.GetUsage(pb.GetUsageRequest(filter=one, group_by=["user"]))).sums
        assert (entry.user_id, entry.requests) == ("bob", 1)


async def test_a_file_comes_in_pieces_that_end_at_line_ends(book: Book) -> None:
    async with served(book) as stub:
        book.outbox.put(*(charge(f"r{number}") for number in range(2_100)))
        request = pb.ExportRequest(format=pb.EXPORT_FORMAT_JSONL)
        pieces = [piece.content async for piece in stub.Export(request)]
        assert len(pieces) == 3
        assert all(piece.endswith(b"\n") for piece in pieces)
        names = [json.loads(line)["request_id"] for line in b"".join(pieces).splitlines()]
        assert names == [f"r{number}" for number in range(2_100)]


async def test_an_erasure_says_how_many_rows_and_which_name_stands_for_them(book: Book) -> None:
    async with served(book) as stub:
        book.outbox.put(charge("a"), charge("b"), charge("c", subject=OTHER))
        reply = await stub.EraseTenant(pb.EraseTenantRequest(tenant_id="acme"))
        assert reply.rows == 2
        rows = await listed(stub, 10, tenant_id=reply.pseudonym)
        assert len(rows) == 2
        assert len(await listed(stub, 10)) == 3


async def test_a_tenant_is_erased_only_if_it_is_known_and_gone_from_the_directory(
    book: Book,
) -> None:
    async with served(book, tenants={"acme", "new"}) as stub:
        book.outbox.put(charge("a"), charge("c", subject=OTHER))
        listed_one = await refusal(stub.EraseTenant(pb.EraseTenantRequest(tenant_id="acme")))
        assert (listed_one.reason, listed_one.field) == (Reason.INVALID_FIELD, "tenant_id")
        assert "gone from the directory first" in listed_one.message
        meant = pb.EraseTenantRequest(tenant_id="acme", still_in_directory=True)
        assert (await stub.EraseTenant(meant)).rows == 1
        nobody = await refusal(stub.EraseTenant(pb.EraseTenantRequest(tenant_id="acmee")))
        assert (nobody.reason, nobody.field) == (Reason.NOT_FOUND, "tenant_id")
        for rows in (1, 0):
            reply = await stub.EraseTenant(pb.EraseTenantRequest(tenant_id="other"))
            assert reply.rows == rows
        unused = pb.EraseTenantRequest(tenant_id="new", still_in_directory=True)
        assert (await stub.EraseTenant(unused)).rows == 0


async def test_while_the_store_is_away_the_status_tells_the_rest(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise WeirError(Reason.LIMITER_UNAVAILABLE, "the shared store is away")

    async with served(book) as stub:
        await book.write(charge("r"))
        monkeypatch.setattr(book.outbox, "backlog", away)
        status = await stub.GetLedgerStatus(pb.GetLedgerStatusRequest())
        assert status.outbox_error == "the shared store is away"
        assert status.last_write_time.ToMilliseconds() == NOW_MS


async def test_the_status_tells_how_far_behind_it_is(book: Book) -> None:
    async with served(book) as stub:
        fresh = await stub.GetLedgerStatus(pb.GetLedgerStatusRequest())
        assert not fresh.HasField("last_write_time")
        book.outbox.put(charge("r", settled_ms=NOW_MS - 4_000))
        status = await stub.GetLedgerStatus(pb.GetLedgerStatusRequest())
        assert (status.outbox_events, status.outbox_age_ms, status.outbox_most) == (1, 4_000, 1_000)
        await book.ledger.pump.flush()
        status = await stub.GetLedgerStatus(pb.GetLedgerStatusRequest())
        assert (status.outbox_events, status.last_error) == (0, "")
        assert status.last_write_time.ToMilliseconds() == NOW_MS


async def test_sums_beyond_the_wire_are_refused_and_not_wrong(book: Book) -> None:
    async with served(book) as stub:
        usage = Usage(MOST, 0, 0)
        await book.write(*(charge(f"r{n}", usage, price=Price()) for n in range(1_100)))
        refused = await refusal(stub.GetUsage(pb.GetUsageRequest()))
        assert refused.reason is Reason.INVALID_FIELD
        assert "beyond 2^63-1" in refused.message


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("ListRows", pb.ListRowsRequest(page_size=1_001), "page_size"),
        ("ListRows", pb.ListRowsRequest(page_size=-1), "page_size"),
        ("ListRows", pb.ListRowsRequest(page_token="!"), "page_token"),
        ("ListRows", pb.ListRowsRequest(page_token="kgHEAA=="), "page_token"),
        ("ListRows", of_rows(tenant_id="a\0b"), "filter.tenant_id"),
        ("ListRows", of_rows(model="x" * 4_096), "filter.model"),
        ("ListRows", of_rows(api_key_id="é"), "filter.api_key_id"),
        ("ListRows", of_rows(from_time=Timestamp(seconds=-1)), "filter.from_time"),
        ("ListRows", of_rows(from_time=at(5), to_time=at(5)), "filter.to_time"),
        ("GetUsage", pb.GetUsageRequest(group_by=["week"]), "group_by"),
        ("GetUsage", pb.GetUsageRequest(group_by=["hour", "day"]), "group_by"),
        ("GetUsage", pb.GetUsageRequest(group_by=["user", "user"]), "group_by"),
        ("EraseTenant", pb.EraseTenantRequest(), "tenant_id"),
        ("EraseTenant", pb.EraseTenantRequest(tenant_id="a b"), "tenant_id"),
    ],
)
async def test_bad_input_names_its_field(
    tmp_book: Book, method: str, request_: Any, field: str
) -> None:
    async with served(tmp_book) as stub:
        refused = await refusal(getattr(stub, method)(request_))
        assert (refused.reason, refused.field) == (Reason.INVALID_FIELD, field)


async def test_a_token_of_another_filter_is_refused(tmp_book: Book) -> None:
    async with served(tmp_book) as stub:
        await tmp_book.write(charge("a"), charge("b"))
        page = await stub.ListRows(pb.ListRowsRequest(page_size=1))
        wanted = pb.RowFilter(tenant_id="acme")
        request = pb.ListRowsRequest(filter=wanted, page_token=page.next_page_token)
        assert (await refusal(stub.ListRows(request))).field == "page_token"


async def test_a_format_must_be_one_of_ours(tmp_book: Book) -> None:
    async with served(tmp_book) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in stub.Export(pb.ExportRequest()):
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_nothing_is_told_without_what_cannot_be_written(book: Book) -> None:
    async with served(book) as stub:
        await book.write(charge("before"))
        async with book.ledger.database.writing() as turn:
            await turn.connection.execute(update(head).values(last_id=LARGEST_ID))
        assert (await stub.ListRows(pb.ListRowsRequest())).rows
        book.outbox.put(charge("waits"))
        for call in (
            stub.ListRows(pb.ListRowsRequest()),
            stub.GetUsage(pb.GetUsageRequest()),
            stub.Export(pb.ExportRequest(format=pb.EXPORT_FORMAT_JSONL)).read(),
        ):
            told = await refusal(call)
            assert told.reason is Reason.LIMITER_UNAVAILABLE
            assert "no id comes after last_id of ledger_head" in told.message
        assert (await stub.GetLedgerStatus(pb.GetLedgerStatusRequest())).outbox_events == 1
