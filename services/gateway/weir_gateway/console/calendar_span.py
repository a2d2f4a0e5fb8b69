"""From when to when a calendar window lasts."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp

from weir.ratelimiter.v1.ledger_service_pb2 import RowFilter


def window_filter(tenant_id: str, window: str, time_zone: str = "", model: str = "") -> RowFilter:
    """What was reserved within a window.

    Args:
        tenant_id: whose.
        window: `2026-11-30` or `2026-11`, as limits name theirs.
        time_zone: of the limit; empty: UTC.
        model: of the limit; empty: all.
    """
    year, month, *day = map(int, window.split("-"))
    if day:
        start = datetime(year, month, day[0])
        after = start + timedelta(days=1)
    else:
        start = datetime(year, month, 1)
        after = datetime(year + month // 12, month % 12 + 1, 1)
    zone = ZoneInfo(time_zone or "UTC")
    return RowFilter(
        tenant_id=tenant_id,
        model=model,
        from_time=_timestamp(start, zone),
        to_time=_timestamp(after, zone),
    )


def day_of(now_us: int) -> str:
    """The day of a moment in UTC, `2026-11-30`."""
    return f"{datetime.fromtimestamp(now_us / 1e6, UTC):%Y-%m-%d}"


def month_of(now_us: int) -> str:
    """Likewise the month, `2026-11`."""
    return day_of(now_us)[:7]


def _timestamp(local: datetime, zone: ZoneInfo) -> Timestamp:
    return Timestamp(seconds=round(local.replace(tzinfo=zone).timestamp()))
