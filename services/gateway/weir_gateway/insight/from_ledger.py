"""What a row of the ledger says about a request."""

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.gateway.v1.insight_service_pb2 import Charge, Explanation, RequestState
from weir.ratelimiter.v1.ledger_service_pb2 import LedgerRow


def charge_of(row: LedgerRow) -> Charge:
    """A charge as it is told."""
    charge = Charge(
        usage=row.usage,
        usage_quality=row.usage_quality,
        outcome=row.outcome,
        amount_nanos=row.amount_nanos,
        reserve_time=row.reserve_time,
        settle_time=row.settle_time,
        worker_id=row.worker_id,
        trace_id=row.trace_id,
    )
    if row.HasField("ttft_ms"):
        charge.ttft_ms = row.ttft_ms
    if row.HasField("latency_ms"):
        charge.latency_ms = row.latency_ms
    return charge


def explanation_from(row: LedgerRow) -> Explanation:
    """The account of a request that no gateway remembers."""
    record = LifecycleRecord(
        request_id=row.request_id,
        subject=row.subject,
        usage=row.usage,
        usage_quality=row.usage_quality,
        outcome=row.outcome,
        accepted_time=row.reserve_time,
        worker_id=row.worker_id,
        trace_id=row.trace_id,
    )
    accepted_ms = row.reserve_time.ToMilliseconds()
    if row.HasField("ttft_ms"):
        record.first_token_time.FromMilliseconds(accepted_ms + row.ttft_ms)
    if row.HasField("latency_ms"):
        record.end_time.FromMilliseconds(accepted_ms + row.latency_ms)
    return Explanation(
        request_id=row.request_id,
        subject=row.subject,
        state=RequestState.REQUEST_STATE_ENDED,
        lifecycle=record,
        charge=charge_of(row),
    )
