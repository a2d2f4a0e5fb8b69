"""How many decisions a second a ratelimiter makes, beside a bare echo."""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.limiter_deployment import (
    Measured,
    Running,
    directory,
    echo,
    measure,
    ratelimiter,
    say,
    snapshot,
)
from bench.workload import percentile

RUNS = 3
_UNARY, _MULTIPLEX, _ECHO = "unary", "multiplex", "echo"


@dataclass
class Rates:
    """Runs of one kind of call."""

    runs: list[Measured] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Median of the answered calls a second."""
        return median(run.rate for run in self.runs)

    @property
    def server_us(self) -> float:
        """Median of the server's CPU time, microseconds a call."""
        return median(run.server_us for run in self.runs)

    def milliseconds(self, share: float) -> float:
        """Percentile of the calls' durations over all runs."""
        return percentile([second for run in self.runs for second in run.seconds], share) * 1e3


async def memory_figures(folder: Path) -> dict[str, object]:
    """The memory store with its journal; the echo runs in turn with it."""
    async with (
        directory(snapshot()) as address,
        ratelimiter(folder, address) as limiter,
        echo() as yardstick,
    ):
        targets = {_ECHO: yardstick, _UNARY: limiter, _MULTIPLEX: limiter}
        rates = await _in_turn(targets, "memory")
    unary, multiplexed, echoed = rates[_UNARY], rates[_MULTIPLEX], rates[_ECHO]
    return {
        "decisions_s_memory": round(unary.per_second),
        "decisions_s_memory_multiplexed": round(multiplexed.per_second),
        "echo_s": round(echoed.per_second),
        "echo_ratio": round(unary.per_second / echoed.per_second, 3),
        "echo_ratio_multiplexed": round(multiplexed.per_second / echoed.per_second, 3),
        "server_cpu_us": {kind: round(found.server_us) for kind, found in rates.items()},
        "p50_ms": round(unary.milliseconds(0.5), 2),
        "p99_ms": round(unary.milliseconds(0.99), 2),
        "p50_ms_multiplexed": round(multiplexed.milliseconds(0.5), 2),
        "p99_ms_multiplexed": round(multiplexed.milliseconds(0.99), 2),
    }


async def shared_store_figures(folder: Path, store: str) -> dict[str, object]:
    """The same decisions on a shared store."""
    more = (f"--store={store}", "--store-timeout-s=2")
    async with (
        directory(snapshot()) as address,
        ratelimiter(folder, address, *more) as limiter,
    ):
        rates = await _in_turn({_UNARY: limiter, _MULTIPLEX: limiter}, "redis")
    return {
        "decisions_s_redis": round(rates[_UNARY].per_second),
        "decisions_s_redis_multiplexed": round(rates[_MULTIPLEX].per_second),
    }


async def _in_turn(targets: dict[str, Running], store: str) -> dict[str, Rates]:
    rates = {kind: Rates() for kind in targets}
    for number in range(RUNS):
        for kind, target in targets.items():
            run = await measure(kind, target)
            rates[kind].runs.append(run)
            say(
                f"{store}, run {number + 1}, {kind}: {run.rate:.0f}/s, CPU a call: "
                f"server {run.server_us:.0f} us, client {run.client_us:.0f} us"
            )
    return rates
