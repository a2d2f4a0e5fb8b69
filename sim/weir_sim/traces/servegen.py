"""ServeGen: per-client arrival rates and length quantiles, turned into requests.

`X.arrivals.csv[.gz]` (`client,start_s,rate_rps,cv,pattern,...`, bins of 600 s) beside
`X.length_quantiles.csv[.gz]` (`client,start_s,field,p5,...,p99,mean`, bins of 6 h).
Source: Xiang et al., "ServeGen" (2025), https://github.com/alibaba/ServeGen (Apache-2.0).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir_sim.generator.gaps import GapFamily, arrivals_within
from weir_sim.generator.quantiles import Quantiles
from weir_sim.traces.lines import CsvRow, csv_rows
from weir_sim.traces.trace_error import TraceError, bad_field
from weir_sim.traces.trace_format import CsvFormat, ReadSpan
from weir_sim.traces.trace_row import TraceRow

BIN_S = 600
_ARRIVALS, _LENGTHS = ".arrivals.csv", ".length_quantiles.csv"
_LENGTH_COLUMNS = ("client", "start_s", "field", "p5", "p25", "p50", "p75", "p90", "p95", "p99")
_PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_FIELDS = ("input_tokens", "output_tokens")
_MAX_CLIENTS = 1_000_000
_MAX_RATE = 1e6


@dataclass(frozen=True, slots=True)
class _Bin:
    client: int
    start_s: int
    rate_rps: float
    cv: float
    family: GapFamily


class ServeGen(CsvFormat):
    """Draws requests bin by bin, so that any part of the days is at hand at once.

    A bin has the published number of requests, at gaps of the published CV and family scaled to
    fill it. A client without published lengths takes those of the client next to it in number.
    """

    def __init__(self) -> None:
        super().__init__("servegen", ("client", "start_s", "rate_rps", "cv", "pattern"))

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Requests by arrival. Raises TraceError."""
        lengths = _lengths(_beside(path))
        bins = self._bins(path, span)
        for start_s in sorted(bins):
            yield from _merged([_draw(one, lengths, span) for one in bins[start_s]])

    def _bins(self, path: Path, span: ReadSpan) -> Mapping[int, list[_Bin]]:
        bins: dict[int, list[_Bin]] = defaultdict(list)
        for row in csv_rows(path, self.columns):
            one = _bin(row)
            if one.start_s < span.until_s and one.start_s + BIN_S > span.from_s:
                bins[one.start_s].append(one)
        return bins


def _bin(row: CsvRow) -> _Bin:
    pattern = row.text("pattern")
    if pattern not in tuple(GapFamily):
        raise bad_field(row.path, row.line, "pattern", pattern, "Gamma or Weibull")
    return _Bin(
        client=row.whole("client", least=0, most=_MAX_CLIENTS),
        start_s=int(row.number("start_s")),
        rate_rps=row.number("rate_rps", most=_MAX_RATE),
        cv=row.number("cv", most=1e6),
        family=GapFamily(pattern),
    )


def _beside(path: Path) -> Path:
    if _ARRIVALS not in path.name:
        raise TraceError(f"{path}: the name of ServeGen arrivals must hold {_ARRIVALS!r}")
    lengths = path.with_name(path.name.replace(_ARRIVALS, _LENGTHS))
    if not lengths.exists():
        raise TraceError(f"{lengths} is missing; it must lie beside {path.name}")
    return lengths


class _Lengths:
    """Quantiles by client and six-hour bin."""

    def __init__(self) -> None:
        self._starts: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._by_start: dict[tuple[int, str], list[Quantiles]] = defaultdict(list)
        self._clients: list[int] = []

    def add(self, client: int, start_s: int, field: str, quantiles: Quantiles) -> None:
        key = client, field
        at = bisect_right(self._starts[key], start_s)
        self._starts[key].insert(at, start_s)
        self._by_start[key].insert(at, quantiles)
        if client not in self._clients:
            self._clients.append(client)

    def of(self, client: int, start_s: int, field: str) -> Quantiles:
        nearest = min(self._clients, key=lambda other: (abs(other - client), other))
        key = nearest, field
        at = max(0, bisect_right(self._starts[key], start_s) - 1)
        return self._by_start[key][at]


def _lengths(path: Path) -> _Lengths:
    lengths = _Lengths()
    for row in csv_rows(path, _LENGTH_COLUMNS):
        field = row.text("field")
        if field in _FIELDS:
            client = row.whole("client", least=0, most=_MAX_CLIENTS)
            lengths.add(client, int(row.number("start_s")), field, _quantiles(row))
    return lengths


def _quantiles(row: CsvRow) -> Quantiles:
    values = [row.number(column) for column in _LENGTH_COLUMNS[3:]]
    if values != sorted(values):
        raise bad_field(row.path, row.line, "p5 to p99", values, "not falling")
    values = [max(1.0, value) for value in values]
    points = list(zip(_PROBABILITIES, values, strict=True))
    # Beyond what is published the outermost values stand.
    return Quantiles([(0.0, values[0]), *points, (1.0, values[-1])])


_Drawn = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _draw(one: _Bin, lengths: _Lengths, span: ReadSpan) -> _Drawn:
    rng = np.random.default_rng([span.seed, one.client, one.start_s])
    count = int(one.rate_rps * BIN_S + rng.uniform())
    moments = one.start_s + arrivals_within(rng, count, BIN_S, one.cv, one.family)
    moments = moments[(moments >= span.from_s) & (moments < span.until_s)]
    kept = len(moments)
    prompts = lengths.of(one.client, one.start_s, "input_tokens").draw(rng, kept)
    outputs = lengths.of(one.client, one.start_s, "output_tokens").draw(rng, kept)
    return moments, prompts, outputs, np.full(kept, one.client)


def _merged(drawn: list[_Drawn]) -> Iterator[TraceRow]:
    moments, prompts, outputs, clients = (
        np.concatenate([parts[at] for parts in drawn]) for at in range(4)
    )
    for at in np.argsort(moments, kind="stable"):
        yield TraceRow(
            prompt_tokens=int(prompts[at]),
            output_tokens=int(outputs[at]),
            arrival_s=float(moments[at]),
            client=str(clients[at]),
        )
