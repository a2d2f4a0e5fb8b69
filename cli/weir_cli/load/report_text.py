"""A load's figures for a person."""

from collections.abc import Sequence

from weir_cli.load.figures import METRICS, LoadFigures, Spread
from weir_cli.load.goodput import Targets
from weir_cli.output import table

_TITLES = {
    "ttft": "time to first token (TTFT)",
    "tpot": "time per output token (TPOT)",
    "itl": "between tokens (ITL)",
    "e2e": "whole answer (E2E)",
}
_LATE_MS = 20.0


def report_text(
    figures: LoadFigures, targets: Targets, tenants: dict[str, LoadFigures], title: str
) -> str:
    """The report of `weir bench`."""
    parts = [title, _counts(figures, targets), _latencies(figures)]
    if len(tenants) > 1:
        parts.append(_by_tenant(tenants))
    if figures.failures:
        parts.append(_failures(figures))
    if warning := _warning(figures):
        parts.append(warning)
    return "\n\n".join(parts)


def _counts(figures: LoadFigures, targets: Targets) -> str:
    told = ", ".join(f"{name} {most:g} ms" for name, most in targets.given.items())
    rows = [
        ("requests", f"{figures.requests}, {figures.completed} answered in full"),
        ("duration", f"{figures.duration_s:.2f} s"),
        ("request throughput", f"{figures.request_rate:.2f}/s"),
        ("output tokens", f"{figures.output_tokens} ({figures.output_tokens_s:.1f}/s)"),
        ("prompt tokens", f"{figures.prompt_tokens}"),
        (
            "goodput",
            f"{figures.goodput:.2f}/s, {figures.good} of {figures.requests} requests"
            + (f" within {told}" if told else " (no targets given: all that were answered)"),
        ),
    ]
    return table(rows)


def _latencies(figures: LoadFigures) -> str:
    which = list(figures.e2e.at)
    head = ("milliseconds", "mean", *(f"p{one:g}" for one in which))
    rows = [(_TITLES[name], *_row(getattr(figures, name), which)) for name in METRICS]
    return table([head, *rows], right=range(1, len(head)))


def _row(spread: Spread, which: Sequence[float]) -> list[str]:
    values = [spread.mean, *(spread.at.get(one) for one in which)]
    return ["-" if value is None else f"{value:.1f}" for value in values]


def _by_tenant(tenants: dict[str, LoadFigures]) -> str:
    head = ("tenant", "requests", "answered", "goodput/s", "tokens/s", "TTFT p50", "429")
    rows = [
        (
            name,
            str(one.requests),
            str(one.completed),
            f"{one.goodput:.2f}",
            f"{one.output_tokens_s:.1f}",
            *_row(one.ttft, (50.0,))[1:],
            str(one.limited),
        )
        for name, one in tenants.items()
    ]
    return table([head, *rows], right=range(1, len(head)))


def _failures(figures: LoadFigures) -> str:
    rows = [
        (f"  {count}", kind, figures.messages.get(kind, ""))
        for kind, count in figures.failures.items()
    ]
    failed = figures.requests - figures.completed
    return f"{failed} not answered, {figures.limited} of them refused by a limit:\n" + table(rows)


def _warning(figures: LoadFigures) -> str:
    p99 = figures.late.at.get(99.0) or max(
        (value for value in figures.late.at.values() if value is not None), default=0.0
    )
    if p99 < _LATE_MS:
        return ""
    return (
        f"Requests were sent up to {p99:.0f} ms later than they should have been: "
        "--max-concurrency held them back, or this client is out of CPU. Latencies count from "
        "the intended moment."
    )
