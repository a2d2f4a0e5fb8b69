"""A calibration's result for a person."""

from weir_cli.calibration.campaign import CampaignResult
from weir_cli.calibration.comparison import Verdict
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.plan import Cell
from weir_cli.calibration.trials import KEPT, Trial
from weir_cli.load.figures import spread_ms
from weir_cli.output import table

_PERCENTILES = (50.0, 95.0, 99.0)
_OTHERS = 0.1


def summary_text(result: CampaignResult, model: str) -> str:
    """Everything, in the order in which it was found."""
    return "\n\n".join(
        [
            f"{model} on {result.worker.profile}",
            _targets(result),
            grid_text(result),
            _levels(result),
            _cost(result),
            _advice(result),
            _carries(result),
            _verdict(result),
            agreement_text(result),
            *_disturbed(result),
        ]
    )


def _targets(result: CampaignResult) -> str:
    told = ", ".join(f"{name} {most:g} ms" for name, most in result.targets.given.items())
    return f"Targets of a good answer: {told}."


def grid_text(result: CampaignResult) -> str:
    """Latencies and speed of every cell at every concurrency."""
    head = (
        "prompt-answer", "at once", "TTFT ms mean", "p95", "p99", "TPOT ms mean", "p95",
        "E2E s mean", "p95", "tokens/s", "good/s", "KV blocks", "RSS MB",
    )  # fmt: skip
    rows = [
        _grid_row(cell, level, one, result)
        for cell in result.findings.cells
        for (name, level), one in sorted(result.grid.items())
        if name == cell.name
    ]
    return table([head, *rows], right=range(1, len(head)))


def _grid_row(cell: Cell, level: int, one: Measurement, result: CampaignResult) -> tuple[str, ...]:
    answered = one.answered
    first = spread_ms([r.ttft_s for r in answered if r.ttft_s is not None], _PERCENTILES)
    token = spread_ms([r.tpot_s for r in answered if r.tpot_s is not None], _PERCENTILES)
    whole = spread_ms([r.e2e_s for r in answered], _PERCENTILES)
    tokens_s = sum(r.output_tokens for r in answered) / max(1e-9, one.seconds)
    return (
        f"{cell.prompt}/{cell.output} ({cell.name})",
        str(level),
        *(_number(value) for value in (first.mean, first.at[95.0], first.at[99.0])),
        *(_number(value) for value in (token.mean, token.at[95.0])),
        *(_number(value, 1e3, 2) for value in (whole.mean, whole.at[95.0])),
        f"{tokens_s:.1f}",
        f"{one.closed_goodput(result.targets, level):.2f}",
        str(one.memory.held_blocks),
        f"{one.memory.device_bytes / 1e6:.0f}",
    )


def _levels(result: CampaignResult) -> str:
    scores = ", ".join(f"{one.streams}: {one.score:.2f}" for one in result.findings.levels)
    told = f"Goodput of each kind alone over its best, by requests at once: {scores}."
    lost = [cell for cell in result.findings.cells if cell not in result.findings.alive]
    if lost and len(lost) < len(result.findings.cells):
        names = ", ".join(cell.name for cell in lost)
        told += f" {names}: never within the targets, and left out of what follows."
    return told


def _carries(result: CampaignResult) -> str:
    """What the simulator says that both settings carry."""
    found = result.search
    if found is None:
        return "No load of all kinds keeps the targets, however small: widen them (--goodput)."
    rates = found.chosen.rates
    return (
        f"Poisson arrivals of all kinds, simulated: {KEPT:.0%} of them keep the targets up to "
        f"{_capacity(found.chosen)} requests/s with the recommended values, "
        f"{_capacity(found.standing)} with those in force; {found.chosen.goodput:.2f} and "
        f"{found.standing.goodput:.2f} good answers a second on average over {rates[0]:.2f} to "
        f"{rates[-1]:.2f} requests/s."
    )


def _capacity(trial: Trial) -> str:
    if trial.capacity is None:
        return f"less than {trial.rates[0]:.2f}"
    return f"{trial.capacity:.2f}" + (" or more" if trial.capacity == trial.rates[-1] else "")


def _cost(result: CampaignResult) -> str:
    cost, fit = result.fit.served.cost, result.fit
    return (
        f"Cost model, fitted to {fit.probes} probes (mean error {fit.error:.1%}): "
        f"{cost.step * 1e3:.2f} ms a step, {cost.prefill_token * 1e3:.3f} ms a prompt token and "
        f"{cost.prefill_position * 1e9:.1f} ns a position that it reads, {cost.decode * 1e3:.3f} "
        f"ms a decode and {cost.context_token * 1e9:.1f} ns a position that it reads; "
        f"{fit.served.request_s * 1e3:.1f} ms a request beside its steps."
    )


def _advice(result: CampaignResult) -> str:
    advised = result.recommendation
    rows = [
        (one.name, _value(one.value), "-" if one.default is None else _value(one.default), one.why)
        for one in (*advised.parameters, advised.policy, *advised.worker, *advised.tenant)
    ]
    return table([("setting", "recommended", "default", "because"), *rows], right=(1, 2))


def _verdict(result: CampaignResult) -> str:
    compared = result.compared
    if compared is None:
        return (
            "Not compared with the values in force: "
            + ("no load keeps the targets." if result.search is None
               else "the stack's directory file is not known (--directory). They stay in force.")
        )  # fmt: skip
    rounds = ", ".join(
        f"{before:.2f} and {after:.2f} ({rate:.2f}/s)"
        for rate, before, after in zip(
            compared.rates, compared.default, compared.recommended, strict=True
        )
    )
    told = (
        "Measured in turn, good answers a second with the values in force and with the "
        f"recommended ones: {rounds}: {compared.gain:+.1%}, noise {compared.noise:.1%}. "
    )
    return (
        told
        + {
            Verdict.BETTER: "The recommended values are better.",
            Verdict.EQUAL: "No difference beyond the noise: the recommended values are equal.",
            Verdict.WORSE: "The recommended values are worse here: those in force are kept.",
        }[compared.verdict]
    )


def agreement_text(result: CampaignResult) -> str:
    """The simulator beside what was measured."""
    rows = [
        (
            f"{one.latency.upper()} p{one.percentile}",
            f"{one.measured_s * 1e3:.0f}",
            f"{one.predicted_s * 1e3:.0f}",
            f"{one.error:.1%}",
            f"{one.spread:.1%}",
            "yes" if one.holds else "no",
        )
        for one in result.predicted
    ]
    head = ("held-out load", "measured ms", "simulated ms", "error", "spread", "holds")
    return table([head, *rows], right=(1, 2, 3, 4)) + (
        "\n(holds: an error of at most 20 %, or of twice the spread of the runs)"
    )


def _disturbed(result: CampaignResult) -> list[str]:
    shares = [one.others for one in result.grid.values() if one.others is not None]
    if not shares:
        return ["What else ran on these processors is not known: take care that nothing did."]
    beyond = sum(share >= _OTHERS for share in shares)
    if not beyond:
        return []
    return [
        f"Processes other than the stack and its load had up to {max(shares):.0%} of the "
        f"processors, {_OTHERS:.0%} or more in {beyond} of {len(shares)} measurements: the "
        "figures are of a disturbed machine. Repeat this on a quiet one."
    ]


def _number(value: float | None, by: float = 1.0, digits: int = 0) -> str:
    return "-" if value is None else f"{value / by:.{digits}f}"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}" if value < 1e6 else f"{value:.0f}"
