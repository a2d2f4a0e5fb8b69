# ruff: noqa: N802
"""The ledger of the fake ratelimiter: a row for each account that it closed."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tests.gateway.fake_server import not_played
from weir.ratelimiter.v1 import ledger_service_pb2 as ledger
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceServicer

if TYPE_CHECKING:
    from tests.gateway.fake_limiter import Account


class FakeLedger(LedgerServiceServicer):
    """Answers by what `accounts` returns."""

    GetUsage = Export = EraseTenant = GetLedgerStatus = staticmethod(not_played)

    def __init__(self, accounts: "Callable[[], Iterable[Account]]") -> None:
        self._accounts = accounts

    async def ListRows(
        self, request: ledger.ListRowsRequest, context: Any
    ) -> ledger.ListRowsResponse:
        wanted = request.filter
        rows = [
            _row(account)
            for account in self._accounts()
            if not account.open
            and account.request.request_id == wanted.request_id
            and wanted.tenant_id in ("", account.request.subject.tenant_id)
        ]
        return ledger.ListRowsResponse(rows=rows)


def _row(account: "Account") -> ledger.LedgerRow:
    row = ledger.LedgerRow(
        kind=ledger.LedgerRowKind.LEDGER_ROW_KIND_CHARGE,
        reservation_id=account.reservation_id,
        request_id=account.request.request_id,
        subject=account.request.subject,
        amount_nanos=7_000_000,
        latency_ms=1_500,
    )
    row.reserve_time.FromSeconds(1_700_000_000)
    row.settle_time.FromSeconds(1_700_000_002)
    for settle in account.settles:
        row.usage.CopyFrom(settle.usage)
        row.usage_quality = settle.usage_quality
        row.outcome = settle.outcome
    for refund in account.refunds:
        row.outcome = refund.outcome
    return row
