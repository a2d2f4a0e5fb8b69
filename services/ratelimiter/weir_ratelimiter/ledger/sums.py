"""Exact sums over a span of time, from hours where whole, from rows where not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    and_,
    func,
    literal_column,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.errors import InvalidField
from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.ledger.rollup import HOUR_MS, hour_of
from weir_ratelimiter.ledger.tables import LIMB, MEASURES, hours, rows

DAY_MS = 24 * HOUR_MS
EVER_MS = 2**52 // HOUR_MS * HOUR_MS

GROUPS = ("hour", "day", "tenant", "user", "api_key", "model")
"""What sums can be told apart by."""

_COLUMNS = {"tenant": "tenant_id", "user": "user_id", "api_key": "api_key_id", "model": "model"}

Group = tuple[Any, ...]
"""Values of what sums are told apart by: names, and starts of hours and days in milliseconds."""


class Span(msgspec.Struct, frozen=True):
    """From a moment up to, and without, another; Unix milliseconds."""

    from_ms: int = 0
    to_ms: int = EVER_MS

    @property
    def empty(self) -> bool:
        """Whether nothing lies in it."""
        return self.from_ms >= self.to_ms

    def split(self) -> tuple["Span", Sequence["Span"]]:
        """The whole hours in it, and what is left at its ends."""
        first, last = -hour_of(-self.from_ms), hour_of(self.to_ms)
        if first > last:
            return Span(first, first), (self,)
        ends = (Span(self.from_ms, first), Span(last, self.to_ms))
        return Span(first, last), [end for end in ends if not end.empty]


class Sums(msgspec.Struct, frozen=True):
    """Sums of rows; adjustments count with their signs, grants do not count.

    Attributes:
        row_count: charges and adjustments.
        charges: charges alone: requests that ended.
        requests: what limits of requests were charged.
    """

    row_count: int = 0
    charges: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    amount_nanos: int = 0

    def plus(self, other: "Sums") -> "Sums":
        """Both together."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Sums(*(one + another for one, another in pairs))


async def usage_sums(
    connection: AsyncConnection,
    span: Span,
    where: Mapping[str, str],
    by: Sequence[str] = (),
    *,
    most: int | None = None,
) -> dict[Group, Sums]:
    """Sums of the rows reserved in `span`, by what `by` names.

    Args:
        connection: in a view of one moment.
        span: of reserve times.
        where: values of columns. With one that only rows have, such as `request_id`, the sums
            are of rows alone; they are the same.
        by: of `GROUPS`.
        most: how many groups at most.

    Raises:
        InvalidField: there are more groups.
    """
    groups: dict[Group, Sums] = {}
    for statement in _statements(span, where, by):
        found = await connection.execute(statement if most is None else statement.limit(most + 1))
        for row in found:
            group, sums = decoded(row, len(by))
            groups[group] = groups.get(group, Sums()).plus(sums)
        if most is not None and len(groups) > most:
            bound = f"such that there are at most {most} sums; narrow the filter or group by less"
            raise InvalidField("group_by", list(by), bound)
    return groups


def row_sums(
    conditions: Iterable[ColumnElement[bool]], by: Sequence[str] = ()
) -> Select[tuple[Any, ...]]:
    """A statement for sums of rows, decoded by `decoded`."""
    groups = [_group(rows, name, rows.c.reserve_ms) for name in by]
    charges = func.count().filter(rows.c.kind == EventKind.CHARGE)
    limbs = [
        func.coalesce(func.sum(part), 0)
        for measure in MEASURES
        for part in (rows.c[measure] // _number(LIMB), rows.c[measure] % _number(LIMB))
    ]
    usage = and_(rows.c.kind != EventKind.GRANT, *conditions)
    return select(*groups, func.count(), charges, *limbs).where(usage).group_by(*groups)


def decoded(row: Sequence[Any], by: int) -> tuple[Group, Sums]:
    """A row of `row_sums` by `by` groups."""
    return tuple(row[:by]), _sums(row[by:])


def _statements(
    span: Span, where: Mapping[str, str], by: Sequence[str]
) -> Sequence[Select[tuple[Any, ...]]]:
    if span.empty:
        return []
    if not where.keys() <= set(hours.c.keys()):
        return [_of_rows(span, where, by)]
    whole, ends = span.split()
    return [_of_hours(whole, where, by), *(_of_rows(end, where, by) for end in ends)]


def _of_rows(span: Span, where: Mapping[str, str], by: Sequence[str]) -> Select[tuple[Any, ...]]:
    return row_sums([*_in_span(rows.c.reserve_ms, span), *_equal(rows, where)], by)


def _of_hours(span: Span, where: Mapping[str, str], by: Sequence[str]) -> Select[tuple[Any, ...]]:
    groups = [_group(hours, name, hours.c.hour_ms) for name in by]
    names = ["row_count", "charges"]
    names += [f"{measure}_{limb}" for measure in MEASURES for limb in ("hi", "lo")]
    totals = [func.coalesce(func.sum(hours.c[name]), 0) for name in names]
    conditions = [*_in_span(hours.c.hour_ms, span), *_equal(hours, where)]
    return select(*groups, *totals).where(*conditions).group_by(*groups)


def _group(table: FromClause, name: str, ms: ColumnElement[int]) -> ColumnElement[Any]:
    if name == "hour":
        return ms - ms % _number(HOUR_MS)
    if name == "day":
        return ms - ms % _number(DAY_MS)
    return table.c[_COLUMNS[name]]


def _number(value: int) -> ColumnElement[int]:
    # Written out: PostgreSQL takes two parameters of the same value for two expressions.
    return literal_column(str(value), BigInteger)


def _in_span(ms: ColumnElement[int], span: Span) -> Sequence[ColumnElement[bool]]:
    return (ms >= span.from_ms, ms < span.to_ms)


def _equal(table: FromClause, where: Mapping[str, str]) -> Iterable[ColumnElement[bool]]:
    return (table.c[name] == value for name, value in where.items())


def _sums(values: Sequence[Any]) -> Sums:
    row_count, charges, *limbs = map(int, values)
    highs, lows = limbs[::2], limbs[1::2]
    totals = (high * LIMB + low for high, low in zip(highs, lows, strict=True))
    return Sums(row_count, charges, *totals)
