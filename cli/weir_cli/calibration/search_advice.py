"""What the simulator chose, with what it was compared with."""

from weir_cli.calibration.advice import Advice, advice
from weir_cli.calibration.findings import Findings
from weir_cli.calibration.settings import POLICY
from weir_cli.calibration.settings_search import FIFO, WORTH, Search
from weir_cli.calibration.trials import Trial

_HOPELESS = "no load keeps the targets; the value in force stays"


def searched_advice(found: Findings, search: Search | None) -> tuple[Advice, Advice, Advice]:
    """Batch size, batch window, step tokens."""
    names = ("max_batch_size", "batch_wait_ms", "max_step_tokens")
    if search is None:
        size, wait, step = (advice(name, found.standing.value(name), _HOPELESS) for name in names)
        return size, wait, step
    if search.kept:
        why = (
            f"simulated: the values in force have {search.standing.goodput:.2f} good answers a "
            f"second {_over(search.standing)}, the best others fewer"
        )
        size, wait, step = (advice(name, found.standing.value(name), why) for name in names)
        return size, wait, step
    return _size(search), _window(search), _step(search)


def policy_advice(found: Findings, search: Search | None) -> Advice:
    """The order of the queue."""
    standing = found.standing.policy or FIFO
    if search is None:
        return Advice(POLICY, standing, FIFO, _HOPELESS)
    tried = search.policies
    chosen = search.chosen.settings.policy or FIFO
    why = (
        f"good answers a second {_over(search.chosen)}: "
        + ", ".join(f"{name} {one.goodput:.2f}" for name, one in tried.items())
        + f"; another order than that in force must gain {WORTH:.0%}; `priority` is for tenants "
        "that send priorities"
    )
    return Advice(POLICY, chosen, FIFO, why)


def _size(search: Search) -> Advice:
    value = search.chosen.settings.value("max_batch_size")
    why = f"good answers a second {_over(search.chosen)}: {_rates(search.sizes)}"
    return advice("max_batch_size", value, why + _alike(search.sizes, value))


def _step(search: Search) -> Advice:
    value = search.chosen.settings.value("max_step_tokens")
    why = f"likewise: {_rates(search.steps)}"
    return advice("max_step_tokens", value, why + _alike(search.steps, value))


def _window(search: Search) -> Advice:
    value = search.chosen.settings.value("batch_wait_ms")
    tried = search.windows
    why = (
        f"likewise: {_rates(tried, ' ms')}; first token at {search.chosen.rates[0]:.3g}/s on "
        "average after "
        + ", ".join(f"{one.ttft_s * 1e3:.0f} ms ({wait:g} ms)" for wait, one in tried.items())
    )
    return advice("batch_wait_ms", value, why)


def _over(trial: Trial) -> str:
    return f"over {trial.rates[0]:.3g} to {trial.rates[-1]:.3g} requests/s, simulated"


def _rates(tried: dict[float, Trial], unit: str = "") -> str:
    return ", ".join(f"{value:g}{unit} {one.goodput:.2f}" for value, one in tried.items())


def _alike(tried: dict[float, Trial], value: float) -> str:
    """Which others the noise of the loads does not tell from the chosen one."""
    best = max(tried.values(), key=lambda one: one.goodput)
    alike = [f"{other:g}" for other, one in tried.items() if one.lead(best) >= 0 and other != value]
    if not alike:
        return ""
    return f"; {', '.join(alike)} alike within the noise: the built-in one, else the largest"
