"""One load of a calibration, measured; what the journal keeps."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from weir_cli.load.exchange import Exchange
from weir_cli.load.goodput import Targets
from weir_cli.load.open_loop import Offered


@dataclass(frozen=True, slots=True)
class Served:
    """One request; seconds from the begin of its load, or from its intended sending.

    Attributes:
        at_s: intended sending.
        prompt_tokens, output_tokens: as the server counts.
        ttft_s, tpot_s: None before the first token, or with fewer than two.
        e2e_s: to the end.
        failure: why it was not answered in full; empty: it was.
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float
    failure: str = ""

    def keeps(self, targets: Targets) -> bool:
        """Whether it was answered in full within every target."""
        return not self.failure and targets.kept(self.ttft_s, self.tpot_s, self.e2e_s)


@dataclass(frozen=True, slots=True)
class DecodeStretch:
    """The time in which every stream of a load decoded.

    Attributes:
        streams: how many.
        step_s: mean time between two tokens of a stream.
        context: mean tokens that all streams together read in a step.
    """

    streams: int
    step_s: float
    context: float


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The most that workers reported while a load ran, summed over them; 0 where unknown."""

    held_blocks: int = 0
    kv_bytes: int = 0
    device_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """A load and what came of it.

    Attributes:
        name: of the load, unique in its calibration.
        seconds: from the first intended sending to the last end.
        requests: in the order of the load.
        decode: None where there was no time in which all decoded.
        memory: of the workers.
        others: share of the processors that neither the stack nor the load generator had, and
            others did; None where it is not known.
    """

    name: str
    seconds: float
    requests: tuple[Served, ...]
    decode: DecodeStretch | None = None
    memory: MemoryPeak = field(default_factory=MemoryPeak)
    others: float | None = None

    @property
    def answered(self) -> tuple[Served, ...]:
        """Requests that were answered in full."""
        return tuple(one for one in self.requests if not one.failure)

    def share_kept(self, targets: Targets) -> float:
        """Share of the requests that were answered within the targets."""
        return fmean(one.keeps(targets) for one in self.requests) if self.requests else 0.0

    def goodput(self, targets: Targets) -> float:
        """Requests a second that were answered within the targets."""
        return sum(one.keeps(targets) for one in self.requests) / max(1e-9, self.seconds)

    def closed_goodput(self, targets: Targets, streams: int) -> float:
        """As `goodput`, of a closed load, by Little's law: its last requests do not count less."""
        answered = self.answered
        if not answered:
            return 0.0
        return streams / fmean(one.e2e_s for one in answered) * self.share_kept(targets)

    def as_json(self) -> dict[str, Any]:
        """For the journal."""
        return asdict(self)


def measurement_of(told: dict[str, Any]) -> Measurement:
    """Reads what `as_json` wrote. Raises TypeError or KeyError for anything else."""
    decode = told["decode"]
    return Measurement(
        name=told["name"],
        seconds=told["seconds"],
        requests=tuple(Served(**one) for one in told["requests"]),
        decode=None if decode is None else DecodeStretch(**decode),
        memory=MemoryPeak(**told["memory"]),
        others=told["others"],
    )


def served(offered: Offered) -> tuple[Served, ...]:
    """What is kept of each request."""
    return tuple(_served(one, offered.begin_s) for one in offered.exchanges)


def _served(exchange: Exchange, begin_s: float) -> Served:
    request = exchange.request
    return Served(
        at_s=exchange.intended_s - begin_s,
        prompt_tokens=exchange.prompt_tokens or request.prompt_tokens,
        output_tokens=exchange.output_tokens or request.output_tokens,
        ttft_s=exchange.ttft_s,
        tpot_s=exchange.tpot_s,
        e2e_s=exchange.e2e_s,
        failure=exchange.failure.kind if exchange.failure else "",
    )


def decode_stretch(exchanges: Sequence[Exchange]) -> DecodeStretch | None:
    """The time from the last first token to the first end, of streams that were all answered."""
    if not exchanges or any(one.failure or not one.arrivals for one in exchanges):
        return None
    begin = max(one.arrivals[0][0] for one in exchanges)
    end = min(one.arrivals[-1][0] for one in exchanges)
    counts = [_tokens_between(one, begin, end) for one in exchanges]
    steps = fmean(inside for _, inside in counts)
    if end <= begin or steps < 1:
        return None
    context = sum(
        one.prompt_tokens + before + inside / 2
        for one, (before, inside) in zip(exchanges, counts, strict=True)
    )
    return DecodeStretch(len(exchanges), (end - begin) / steps, context)


def _tokens_between(exchange: Exchange, begin: float, end: float) -> tuple[int, int]:
    moments = np.array([moment for moment, _ in exchange.arrivals])
    tokens = np.array([tokens for _, tokens in exchange.arrivals])
    return int(tokens[moments <= begin].sum()), int(
        tokens[(moments > begin) & (moments <= end)].sum()
    )


def seconds_of(values: Iterable[float | None]) -> list[float]:
    """Those that are known."""
    return [value for value in values if value is not None]
