"""`weir.ratelimiter.v1.LedgerService`: validate, call, map."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from weir.ratelimiter.v1 import ledger_service_pb2 as pb
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceServicer
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter import ledger_wire as wire
from weir_ratelimiter.domain.subject import check_id
from weir_ratelimiter.ledger.database import told_as_unavailable
from weir_ratelimiter.ledger.export.formats import FORMATS
from weir_ratelimiter.ledger.ledger import Ledger
from weir_ratelimiter.ledger.reader import page, pages
from weir_ratelimiter.ledger.row_ids import NOTHING
from weir_ratelimiter.ledger.sums import usage_sums
from weir_ratelimiter.wire import timestamp

SERVICE = "weir.ratelimiter.v1.LedgerService"

_MOST_SUMS = 10_000

Context = grpc.aio.ServicerContext[Any, Any]


class LedgerServicer(LedgerServiceServicer):
    """Serves one ledger; exceptions become statuses in the interceptors.

    Args:
        ledger: what is served.
        most_events: number of events behind at which new work is refused.
        in_directory: whether the directory has a tenant; raises WeirError if it is not known.
    """

    def __init__(
        self, ledger: Ledger, most_events: int, in_directory: Callable[[str], bool]
    ) -> None:
        self._ledger = ledger
        self._most_events = most_events
        self._in_directory = in_directory

    async def ListRows(  # noqa: N802
        self, request: pb.ListRowsRequest, context: Context
    ) -> pb.ListRowsResponse:
        """A page of rows."""
        wanted = wire.filter_from(request.filter)
        size = wire.page_size_from(request)
        token = request.page_token
        after = wire.after_id_from(token, wanted) if token else NOTHING
        await self._ledger.pump.flush(wanted.tenant_id)
        with told_as_unavailable():
            async with self._ledger.database.reading() as connection:
                found = await page(connection, wanted, after, size + 1)
        more = len(found) > size
        return pb.ListRowsResponse(
            rows=map(wire.row_to, found[:size]),
            next_page_token=wire.page_token_to(found[size - 1].id, wanted) if more else "",
        )

    async def GetUsage(  # noqa: N802
        self, request: pb.GetUsageRequest, context: Context
    ) -> pb.GetUsageResponse:
        """Sums, ordered by what they are told apart by."""
        wanted = wire.filter_from(request.filter)
        by = wire.group_by_from(request)
        await self._ledger.pump.flush(wanted.tenant_id)
        with told_as_unavailable():
            async with self._ledger.database.reading() as connection:
                groups = await usage_sums(connection, wanted.span, wanted.ids, by, most=_MOST_SUMS)
        sums = [wire.sum_to(by, group, groups[group]) for group in sorted(groups)]
        return pb.GetUsageResponse(sums=sums)

    async def Export(  # noqa: N802
        self, request: pb.ExportRequest, context: Context
    ) -> AsyncIterator[pb.ExportResponse]:
        """The rows as a file, in pieces."""
        wanted = wire.filter_from(request.filter)
        name = wire.FORMAT_NAMES.get(request.format)
        if name is None:
            raise InvalidField("format", int(request.format), "JSONL, CSV or CLOUDEVENTS")
        file = FORMATS[name]
        await self._ledger.pump.flush(wanted.tenant_id)
        if header := file.header():
            yield pb.ExportResponse(content=header)
        with told_as_unavailable():
            async for rows in pages(self._ledger.database, wanted):
                yield pb.ExportResponse(content=file.encode(rows))

    async def EraseTenant(  # noqa: N802
        self, request: pb.EraseTenantRequest, context: Context
    ) -> pb.EraseTenantResponse:
        """Put pseudonyms for all that identifies a tenant."""
        tenant_id = check_id("tenant_id", request.tenant_id)
        is_listed = self._in_directory(tenant_id)
        if is_listed and not request.still_in_directory:
            bound = "gone from the directory first, or erased with still_in_directory"
            raise InvalidField("tenant_id", tenant_id, bound)
        await self._ledger.pump.flush(tenant_id)
        with told_as_unavailable():
            if not is_listed and not await self._ledger.eraser.knows(tenant_id):
                raise _unknown(tenant_id)
            erased = await self._ledger.eraser.erase(tenant_id)
        return pb.EraseTenantResponse(
            rows=erased, pseudonym=self._ledger.pseudonyms.tenant(tenant_id)
        )

    async def GetLedgerStatus(  # noqa: N802
        self, request: pb.GetLedgerStatusRequest, context: Context
    ) -> pb.GetLedgerStatusResponse:
        """How far the ledger is behind the account."""
        status = await self._ledger.status()
        written = None if status.written_ms is None else timestamp(status.written_ms)
        return pb.GetLedgerStatusResponse(
            outbox_events=status.events,
            outbox_age_ms=status.age_ms,
            outbox_most=self._most_events,
            last_write_time=written,
            last_error=status.error,
            outbox_error=status.outbox_error,
        )


def _unknown(tenant_id: str) -> WeirError:
    return WeirError(
        Reason.NOT_FOUND,
        f"tenant {tenant_id} is neither in the directory nor in the ledger",
        field="tenant_id",
    )
