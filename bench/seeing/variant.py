"""One way to run the stack: how much of it is seen."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.deployment import deployment
from bench.gateway.target import Target
from bench.seeing.receiver import Receiver, open_receiver
from weir_cli.stack.local import LocalStack

_NULL_TOKEN_CHARACTERS = 1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Variant:
    """How much is seen.

    Attributes:
        name: of its figures.
        ratio: share of traces that are recorded; None: nothing is exported; 0.1 is the default
            and is not set, so that the default itself is measured.
        least, most: traces received for each request, or the variant did not do what it is for.
    """

    name: str
    ratio: float | None
    least: float
    most: float


OFF = Variant("off", None, 0.0, 0.0)
CONTROL = Variant("control", None, 0.0, 0.0)
DEFAULT = Variant("default_sampling", 0.1, 0.05, 0.15)
ALL = Variant("all_traces", 1.0, 0.8, 1.05)
VARIANTS = (OFF, DEFAULT, ALL, CONTROL)


@dataclass(frozen=True, slots=True)
class RunningVariant:
    """A stack of its own, and where its traces go."""

    variant: Variant
    stack: LocalStack
    target: Target
    receiver: Receiver

    def cpu_seconds(self) -> float:
        """User and system time of all services so far; children of engines included."""
        return sum(_cpu_seconds(pid) for pid in self.stack.pids.values())


@asynccontextmanager
async def running(variant: Variant) -> AsyncIterator[RunningVariant]:
    """Starts it, and ends it with the block."""
    async with open_receiver() as receiver:
        settings = {} if variant.ratio in (None, 0.1) else _ratio_of_all(variant.ratio)
        otlp = "" if variant.ratio is None else receiver.endpoint
        async with deployment(null=True, otlp=otlp, environment=settings) as (stack, _):
            welcome = stack.welcome
            url = f"http://{welcome.http}/v1/chat/completions"
            target = Target(variant.name, [url], welcome.key, welcome.model, _NULL_TOKEN_CHARACTERS)
            yield RunningVariant(variant, stack, target, receiver)


def _ratio_of_all(ratio: float | None) -> dict[str, str]:
    services = ("GATEWAY", "RATELIMITER", "SCHEDULER", "WORKER")
    return {f"WEIR_{service}__TRACE_SAMPLE_RATIO": str(ratio) for service in services}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
