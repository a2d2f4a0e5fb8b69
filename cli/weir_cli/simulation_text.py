"""Simulated runs as tables."""

from collections.abc import Sequence

from weir_cli.output import table
from weir_sim.report.statistics import RunNumbers, Spread, TenantNumbers

_HEADS = (
    "tenant", "weight", "requests", "refused", "ttft p50", "p95", "p99", "itl p50", "p99",
    "e2e p50", "p99", "tokens/s", "share", "of its due",
)  # fmt: skip
_RIGHT = range(1, len(_HEADS))
_TENANTS = 20


def run_text(run: RunNumbers) -> str:
    """One run: its tenants, the busiest first, the total, and how even it was."""
    rows = [_HEADS, *(_row(one) for one in run.tenants[:_TENANTS]), _row(run.total)]
    left_out = len(run.tenants) - _TENANTS
    lines = [run.name, table(rows, right=_RIGHT)]
    if left_out > 0:
        lines.append(f"and {left_out} tenants more (-o json has all)")
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
        f"{one.share:.1%}",
        "" if one.attained is None else f"{one.attained:.2f}",
    )


def _percentiles(spread: Spread) -> tuple[str, str, str]:
    return _seconds(spread.p50), _seconds(spread.p95), _seconds(spread.p99)


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.1f}ms" if value < 1 else f"{value:,.1f}s"
