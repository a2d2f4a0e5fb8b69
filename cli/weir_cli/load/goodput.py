"""Targets that an answer must keep to count as good."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir_cli.errors import CommandError
from weir_cli.load.exchange import Exchange

_NAMES = ("ttft", "tpot", "itl", "e2e")
_LONGEST_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Targets:
    """Milliseconds, each of one request; None: no such target.

    Attributes:
        ttft_ms: to the first token.
        tpot_ms: mean of a token after the first.
        itl_ms: the same under the name that the product's `slo.itl_ms` has.
        e2e_ms: to the end.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_ms: float | None = None
    e2e_ms: float | None = None

    @property
    def given(self) -> dict[str, float]:
        """Those that are set, by name."""
        values = {name: getattr(self, f"{name}_ms") for name in _NAMES}
        return {name: value for name, value in values.items() if value is not None}

    def kept(self, ttft_s: float | None, tpot_s: float | None, e2e_s: float) -> bool:
        """Whether an answer was in time; one without a first token is not."""
        if ttft_s is None:
            return False
        tpot = tpot_s or 0.0
        measured = {"ttft": ttft_s, "tpot": tpot, "itl": tpot, "e2e": e2e_s}
        return all(measured[name] * 1e3 <= most for name, most in self.given.items())

    def kept_by(self, exchange: Exchange) -> bool:
        """Whether a request was answered in full and within every target."""
        answered = exchange.failure is None
        return answered and self.kept(exchange.ttft_s, exchange.tpot_s, exchange.e2e_s)


def parse_targets(texts: Sequence[str]) -> Targets:
    """Reads `ttft:500`, `itl:50`, several of them in a text too. Raises CommandError."""
    values: dict[str, float] = {}
    for part in (part for text in texts for part in text.replace(",", " ").split()):
        name, _, number = part.partition(":")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if name not in _NAMES or not 0 < value <= _LONGEST_MS:
            raise CommandError(
                f"--goodput has {part!r}; it must be one of {', '.join(_NAMES)}, a colon and "
                f"milliseconds up to {_LONGEST_MS}, such as ttft:500"
            )
        values[f"{name}_ms"] = value
    return Targets(**values)
