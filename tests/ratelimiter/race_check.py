"""Compares what clients saw with what the account and its ledger say, to the unit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.ratelimiter.race import (
    Report,
    Row,
    held_for_ever,
    held_until_end,
    most_at_once,
)
from tests.ratelimiter.race_directory import Contest
from weir_ratelimiter.domain.limit import HELD, Limit, Resource
from weir_ratelimiter.store.base import LimitState

_COUNTS = {
    Resource.REQUESTS: lambda row: row.requests,
    Resource.TOKENS: lambda row: row.tokens,
    Resource.INPUT_TOKENS: lambda row: row.prompt,
    Resource.OUTPUT_TOKENS: lambda row: row.completion,
}


def rows_by_race(report: Report) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in report.rows:
        found.setdefault(row.race, []).append(row)
    return found


def never_over(contest: Contest, limits: Iterable[Limit], rows: Sequence[Row]) -> None:
    """At no moment were more units surely taken than there are."""
    for limit in limits:
        held = held_until_end if limit.kind in HELD else held_for_ever
        most = most_at_once(map(held, rows))
        assert most <= contest.capacity, f"{contest.race.name}: {most} at once of {limit.key}"


def every_level_is_exact(states: Iterable[LimitState], rows: Sequence[Row]) -> None:
    """What is left is the capacity without what the clients were charged; nothing is held."""
    for state in states:
        limit = state.limit
        charged = 0
        if limit.kind not in HELD:
            charged = sum(map(_COUNTS[limit.resource], rows))
        assert (state.remaining, state.held) == (limit.capacity - charged, 0), limit.key


def charged_once_each(rows: Sequence[Row], ledger: Sequence[Mapping[str, Any]]) -> None:
    """The ledger has one row for each admitted request, of what its client was charged."""
    assert {row["kind"] for row in ledger} == {"charge"}
    charges = Counter(map(_charge, ledger))
    expected = Counter(
        (row.reservation_id, row.requests, row.prompt, row.completion) for row in rows
    )
    assert charges - expected == Counter(), "charged, but not to be"
    assert expected - charges == Counter(), "to be charged, but not"


def _charge(row: Mapping[str, Any]) -> tuple[str, int, int, int]:
    columns = ("reservation_id", "requests", "prompt_tokens", "completion_tokens")
    reservation_id, requests, prompt, completion = (row[column] for column in columns)
    return reservation_id, requests, prompt, completion
