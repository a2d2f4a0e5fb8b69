"""Simulated runs as tables."""

from collections.abc import Sequence
from math import floor

from weir_cli.output import table
from weir_sim.report.statistics import TOTAL, RunNumbers, Spread, TenantNumbers

_HEADS = (
    "tenant", "weight", "requests", "refused", "ttft p50", "p95", "p99", "itl p50", "p99",
    "e2e p50", "p99", "tokens/s", "contended", "by weight", "of its due", "of all",
)  # fmt: skip
_RIGHT = range(1, len(_HEADS))
_TENANTS = 20
_LEGEND = (
    "contended: share of the service while two or more tenants waited; by weight: what weights "
    "entitled it to then;\nof its due: service while it waited over that; -: it hardly waited; "
    "of all: share of the whole load's service"
)


def run_text(run: RunNumbers) -> str:
    """One run: its tenants, the busiest first, the total, and how even it was."""
    rows = [_HEADS, *(_row(one) for one in run.tenants[:_TENANTS]), _row(run.total)]
    left_out = len(run.tenants) - _TENANTS
    lines = [run.name, table(rows, right=_RIGHT)]
    if left_out > 0:
        lines.append(f"and {left_out} tenants more (-o json has all)")
    lines.append(_LEGEND)
    lines.append(_offered(run.offered_load))
    lines.append(
        f"max gap of two that wait: {run.max_gap:,.0f} weighted tokens, "
        f"{run.gap_over_2u:.3f} of the bound 2U; Jain index {run.jain:.3f}; "
        f"prefix hits {run.prefix_hit:.1%}; "
        f"busiest worker {run.worker_max_over_mean:.2f} x mean; {run.seconds:,.0f} s simulated"
    )
    return "\n".join(lines)


def comparison_text(runs: Sequence[RunNumbers]) -> str:
    """The totals of several runs side by side."""
    head = (
        "run", "ttft p50", "p95", "p99", "e2e p99", "tokens/s", "refused", "gap/2U", "Jain",
        "hits", "busiest/mean",
    )  # fmt: skip
    rows = [
        (
            run.name,
            *_percentiles(run.total.ttft),
            _seconds(run.total.e2e.p99),
            f"{run.total.tokens_s:,.0f}",
            str(run.total.refused),
            f"{run.gap_over_2u:.3f}",
            f"{run.jain:.3f}",
            f"{run.prefix_hit:.1%}",
            f"{run.worker_max_over_mean:.2f}",
        )
        for run in runs
    ]
    return table([head, *rows], right=range(1, len(head)))


def _row(one: TenantNumbers) -> Sequence[str]:
    return (
        one.tenant,
        str(one.weight or ""),
        str(one.requests),
        str(one.refused),
        *_percentiles(one.ttft),
        _seconds(one.itl.p50),
        _seconds(one.itl.p99),
        _seconds(one.e2e.p50),
        _seconds(one.e2e.p99),
        f"{one.tokens_s:,.1f}",
        *_shares(one),
        f"{one.share_of_all:.1%}",
    )


def _shares(one: TenantNumbers) -> tuple[str, str, str]:
    if one.tenant == TOTAL and not one.weight:
        return "", "", ""
    contended = one.contended
    return (
        "-" if contended is None else f"{contended.got:.1%}",
        "-" if contended is None else f"{contended.due:.1%}",
        "-" if one.attained is None else f"{one.attained:.2f}",
    )


def _offered(load: float | None) -> str:
    if load is None:
        return "offered load: below capacity, requests hardly waited for a place"
    hint = (
        "; the queue grows for as long as requests arrive: "
        f"more --workers, or --rate-scale {_down(1 / load)} would keep up"
    )
    return f"offered load: {load:.2f} x capacity{hint if load > 1 else ''}"


def _down(ratio: float) -> str:
    return f"{floor(ratio * 100) / 100:g}"


def _percentiles(spread: Spread) -> tuple[str, str, str]:
    return _seconds(spread.p50), _seconds(spread.p95), _seconds(spread.p99)


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.1f}ms" if value < 1 else f"{value:,.1f}s"
