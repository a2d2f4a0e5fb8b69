"""Amounts, durations and rates as people write them: `60k`, `1.5M`, `8Ki`, `500ms`, `10/s`."""

import re
from dataclasses import dataclass
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_DURATIONS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_PERIODS_MS = _DURATIONS_MS | {
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
}
MAX_AMOUNT = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Rate:
    """So many units in each period of so many milliseconds."""

    amount: int
    period_ms: int


def parse_amount(value: object) -> int:
    """An amount from an integer or a text such as `60k`.

    Raises:
        ValueError: it is negative, fractional, too large or something else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value)
    match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2] not in _SCALES:
        raise ValueError(
            f"{value!r} is not an amount; write an integer such as 60000, 60k, 1.5M or 8Ki"
        )
    exact = Fraction(match[1]) * _SCALES[match[2]]
    if exact.denominator != 1:
        raise ValueError(f"{value!r} is not a whole number")
    return _bounded(int(exact))


def parse_duration_ms(value: object) -> int:
    """Milliseconds from a text such as `500ms`, `30s`, `5m`, `1h` or `7d`.

    Raises:
        ValueError: it is anything else.
    """
    match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2] not in _DURATIONS_MS:
        raise ValueError(f"{value!r} is not a duration; write for instance 500ms, 30s, 5m or 1h")
    exact = Fraction(match[1]) * _DURATIONS_MS[match[2]]
    if exact.denominator != 1:
        raise ValueError(f"{value!r} is not a whole number of milliseconds")
    return _bounded(int(exact))


def parse_rate(value: object) -> Rate:
    """A rate from a text such as `10/s`, `60k/min`, `100/10s` or `2M/hour`.

    Raises:
        ValueError: it is anything else.
    """
    amount, slash, period = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash:
        raise ValueError(f"{value!r} is not a rate; write for instance 10/s, 60k/min or 100/10s")
    return Rate(parse_amount(amount), _period_ms(period.strip()))


def parse_time_zone(value: object) -> str:
    """The name of a time zone of the IANA database.

    Raises:
        ValueError: there is no such zone.
    """
    if isinstance(value, str):
        try:
            return ZoneInfo(value).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ValueError(f"{value!r} is not a time zone; write for instance UTC or Europe/Berlin")


def _period_ms(text: str) -> int:
    if text in _PERIODS_MS:
        return _PERIODS_MS[text]
    period = parse_duration_ms(text)
    if period == 0:
        raise ValueError("the period of a rate is 0")
    return period


def _bounded(value: int) -> int:
    if not 0 <= value <= MAX_AMOUNT:
        raise ValueError(f"{value} is out of bounds; it must be from 0 to 2^53-1")
    return value
