"""Windows: where days and months begin and end, in time zones and over clock changes."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_core.errors import InvalidField
from weir_ratelimiter.domain.calendar import Calendar, Unit, surely_over_ms

HOUR_MS = 3_600_000
BERLIN, NEW_YORK, KATHMANDU = "Europe/Berlin", "America/New_York", "Asia/Kathmandu"
ZONES = [BERLIN, NEW_YORK, KATHMANDU, "UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Asia/Beirut"]


def at(zone: str, *when: int) -> int:
    year, month, day, *time = when
    hour, minute = [*time, 0, 0][:2]
    local = datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone))
    return round(local.timestamp() * 1_000)


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, KATHMANDU, "UTC"])
def test_a_day_is_from_local_midnight_to_local_midnight(zone: str) -> None:
    window = Calendar(Unit.DAY, zone).window(at(zone, 2026, 11, 29, 13, 5))
    assert window.id == "2026-11-29"
    assert window.start_ms == at(zone, 2026, 11, 29)
    assert window.end_ms == at(zone, 2026, 11, 30)


@pytest.mark.parametrize(
    ("month", "after"), [(2, (2028, 3, 1)), (12, (2029, 1, 1)), (11, (2028, 12, 1))]
)
def test_a_month_ends_where_the_next_begins(month: int, after: tuple[int, int, int]) -> None:
    window = Calendar(Unit.MONTH, BERLIN).window(at(BERLIN, 2028, month, 28, 23, 59))
    assert window.id == f"2028-{month:02d}"
    assert (window.start_ms, window.end_ms) == (at(BERLIN, 2028, month, 1), at(BERLIN, *after))


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        (BERLIN, (2026, 3, 29), 23),
        (BERLIN, (2026, 10, 25), 25),
        (NEW_YORK, (2026, 3, 8), 23),
        (NEW_YORK, (2026, 11, 1), 25),
        # Midnight itself is skipped.
        ("Asia/Beirut", (2026, 3, 29), 23),
    ],
)
def test_days_of_clock_changes_are_whole(zone: str, day: tuple[int, ...], hours: int) -> None:
    calendar = Calendar(Unit.DAY, zone)
    window = calendar.window(at(zone, *day, 12))
    assert window.end_ms - window.start_ms == hours * HOUR_MS
    assert calendar.window(window.end_ms).start_ms == window.end_ms
    assert calendar.window(window.start_ms - 1).end_ms == window.start_ms


def test_the_last_millisecond_belongs_to_the_window_before() -> None:
    calendar = Calendar(Unit.DAY, BERLIN)
    midnight = at(BERLIN, 2026, 11, 30)
    assert calendar.window(midnight - 1).id == "2026-11-29"
    assert calendar.window(midnight).id == "2026-11-30"


@given(
    st.integers(at("UTC", 2000, 1, 1), at("UTC", 2100, 1, 1)),
    st.sampled_from(ZONES),
    st.sampled_from(list(Unit)),
)
def test_windows_tile_time_and_their_ids_sort(now_ms: int, zone: str, unit: Unit) -> None:
    calendar = Calendar(unit, zone)
    window = calendar.window(now_ms)
    assert window.start_ms <= now_ms < window.end_ms
    following = calendar.window(window.end_ms)
    assert following.start_ms == window.end_ms
    assert following.id > window.id
    assert calendar.window(window.end_ms - 1) == calendar.window(window.start_ms) == window
    assert window.end_ms <= surely_over_ms(window.id) <= window.end_ms + 48 * HOUR_MS


@pytest.mark.parametrize(
    ("unit", "zone", "field"),
    [
        ("week", "UTC", "l.window"),
        ("", "UTC", "l.window"),
        ("day", "Mars/Olympus", "l.time_zone"),
        ("day", "../../etc/passwd", "l.time_zone"),
        ("day", "UTC\0", "l.time_zone"),
        ("day", "Europe", "l.time_zone"),
        ("day", "x" * 4_096, "l.time_zone"),
    ],
)
def test_unknown_units_and_zones_are_refused_by_name(unit: str, zone: str, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        Calendar.of("l", unit, zone)
    assert caught.value.field == field


def test_no_zone_is_utc() -> None:
    assert Calendar.of("l", "month", "") == Calendar(Unit.MONTH, "UTC")
