"""Calendar windows: the day or the month that a moment lies in, in a time zone."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from weir_core.errors import InvalidField

_MOST_BEHIND_UTC_MS = 16 * 3_600_000


class Unit(StrEnum):
    """Length of a window."""

    DAY = "day"
    MONTH = "month"


class Window(msgspec.Struct, frozen=True, gc=False):
    """One window.

    Attributes:
        id: `2026-11-29` or `2026-11`: the same in every process, ordered by time.
        start_ms, end_ms: Unix milliseconds; the end is the start of the next.
    """

    id: str
    start_ms: int
    end_ms: int


class Calendar(msgspec.Struct, frozen=True):
    """Divides time into windows."""

    unit: Unit
    time_zone: str = "UTC"

    @classmethod
    def of(cls, where: str, unit: str, time_zone: str) -> "Calendar":
        """Build a calendar from untrusted names; an empty zone is UTC.

        Raises:
            InvalidField: the unit is neither `day` nor `month`, or there is no such zone.
        """
        try:
            known = Unit(unit)
        except ValueError:
            raise InvalidField(f"{where}.window", unit, "`day` or `month`") from None
        try:
            ZoneInfo(time_zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError):
            bound = "a time zone of the IANA database, such as Europe/Berlin"
            raise InvalidField(f"{where}.time_zone", time_zone, bound) from None
        return cls(known, time_zone or "UTC")

    def window(self, now_ms: int) -> Window:
        """The window that `now_ms`, Unix milliseconds, lies in."""
        # Windows begin at local midnights, and zones differ by whole minutes: a minute lies in
        # one window, and is what is cached.
        return _window(self, now_ms // 60_000)


def surely_over_ms(window_id: str) -> int:
    """When a window has ended in every time zone, Unix milliseconds."""
    year, month, *day = map(int, window_id.split("-"))
    if day:
        after = datetime(year, month, day[0]) + timedelta(days=1)
    else:
        after = datetime(year + month // 12, month % 12 + 1, 1)
    return _unix_ms(after, ZoneInfo("UTC")) + _MOST_BEHIND_UTC_MS


@lru_cache(maxsize=4_096)
def _window(calendar: Calendar, minute: int) -> Window:
    zone = ZoneInfo(calendar.time_zone)
    local = datetime.fromtimestamp(minute * 60, UTC).astimezone(zone)
    if calendar.unit is Unit.DAY:
        start = datetime(local.year, local.month, local.day)
        after = start + timedelta(days=1)
        name = f"{start:%Y-%m-%d}"
    else:
        start = datetime(local.year, local.month, 1)
        after = datetime(local.year + local.month // 12, local.month % 12 + 1, 1)
        name = f"{start:%Y-%m}"
    return Window(name, _unix_ms(start, zone), _unix_ms(after, zone))


def _unix_ms(local: datetime, zone: ZoneInfo) -> int:
    return round(local.replace(tzinfo=zone).timestamp() * 1_000)
