"""A load in numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from weir_cli.load.exchange import Exchange
from weir_cli.load.goodput import Targets
from weir_cli.load.open_loop import Offered

PERCENTILES = (50.0, 90.0, 95.0, 99.0)
METRICS = ("ttft", "tpot", "itl", "e2e")


@dataclass(frozen=True, slots=True)
class Spread:
    """One latency, milliseconds; None without a value.

    Attributes:
        mean: of all.
        at: value by percentile.
        count: of values.
    """

    mean: float | None
    at: dict[float, float | None]
    count: int

    def percentile(self, which: float) -> float:
        """One that was asked for. Raises ValueError when nothing was measured."""
        value = self.at.get(which)
        if value is None:
            raise ValueError(f"p{which:g} was not measured")
        return value

    def as_json(self) -> dict[str, Any]:
        """`mean`, `p50`, ... and `count`."""
        shown = {f"p{which:g}": value for which, value in self.at.items()}
        return {"mean": self.mean, **shown, "count": self.count}


def spread_ms(seconds: Sequence[float], percentiles: Sequence[float] = PERCENTILES) -> Spread:
    """The spread of values in seconds, as milliseconds, interpolated between neighbours."""
    if not seconds:
        return Spread(None, dict.fromkeys(percentiles), 0)
    values = np.asarray(seconds) * 1e3
    found = np.percentile(values, percentiles)
    at: dict[float, float | None] = {
        which: float(value) for which, value in zip(percentiles, found, strict=True)
    }
    return Spread(float(values.mean()), at, len(seconds))


@dataclass(frozen=True)
class LoadFigures:
    """What `weir bench` reports of all requests, or of one tenant's.

    Attributes:
        requests, completed: sent; answered in full.
        duration_s: from the first intended sending to the last end.
        ttft, tpot, itl, e2e: of the completed ones, from the intended sending.
        request_rate: completed requests a second.
        prompt_tokens, output_tokens: of the completed ones.
        output_tokens_s: output tokens a second, answers that failed included.
        good: completed within every target; without targets all completed.
        goodput: of these, a second.
        failures: number by kind; refusals of limits are `429 LIMIT`.
        messages: one of the server's sentences by kind.
        late: how much later than intended requests were sent: the client's own doing.
    """

    requests: int
    completed: int
    duration_s: float
    ttft: Spread
    tpot: Spread
    itl: Spread
    e2e: Spread
    request_rate: float
    prompt_tokens: int
    output_tokens: int
    output_tokens_s: float
    good: int
    goodput: float
    late: Spread
    failures: dict[str, int] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    @property
    def limited(self) -> int:
        """Requests that a limit refused."""
        return sum(n for kind, n in self.failures.items() if kind.startswith("429"))

    def as_json(self) -> dict[str, Any]:
        """For a program; times in milliseconds."""
        plain = {
            name: value for name, value in asdict(self).items() if name not in (*METRICS, "late")
        }
        spreads = {f"{name}_ms": getattr(self, name).as_json() for name in (*METRICS, "late")}
        return plain | {"limited": self.limited} | spreads


def load_figures(
    offered: Offered,
    targets: Targets,
    percentiles: Sequence[float] = PERCENTILES,
    tenant: str | None = None,
) -> LoadFigures:
    """Sums a load up, or the part of one tenant."""
    exchanges = [one for one in offered.exchanges if tenant in (None, one.request.tenant)]
    completed = [one for one in exchanges if one.failure is None]
    seconds = offered.duration_s
    good = sum(map(targets.kept_by, exchanges))
    failures = [one.failure for one in exchanges if one.failure is not None]

    def spread(values: Iterable[float | None]) -> Spread:
        return spread_ms([value for value in values if value is not None], percentiles)

    return LoadFigures(
        requests=len(exchanges),
        completed=len(completed),
        duration_s=seconds,
        ttft=spread(one.ttft_s for one in completed),
        tpot=spread(one.tpot_s for one in completed),
        itl=spread(gap for one in completed for gap in one.gaps_s()),
        e2e=spread(one.e2e_s for one in completed),
        request_rate=len(completed) / seconds,
        prompt_tokens=_sum(one.prompt_tokens for one in completed),
        output_tokens=_sum(one.output_tokens for one in completed),
        output_tokens_s=_sum(_seen(one) for one in exchanges) / seconds,
        good=good,
        goodput=good / seconds,
        late=spread(one.sent_s - one.intended_s for one in exchanges if one.sent_s),
        failures=dict(Counter(failure.kind for failure in failures).most_common()),
        messages={failure.kind: failure.message for failure in failures},
    )


def _seen(exchange: Exchange) -> int:
    return exchange.output_tokens or _sum(tokens for _, tokens in exchange.arrivals)


def _sum(values: Iterable[int]) -> int:
    return sum(values)
