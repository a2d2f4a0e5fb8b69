"""What `weir simulate` runs: a load, a fleet, and one or several ways to schedule it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weir_cli.errors import CommandError
from weir_scheduler.policies.named import POLICIES
from weir_scheduler.rules.queue_rules import FairQueue, QueueRules
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_sim.generator.presets import PRESETS
from weir_sim.generator.workload_of_preset import workload_of_preset
from weir_sim.setup import Setup
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.workload_of import workload_of_file
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload

LOCALITY = "locality"
ISOLATIONS = (Isolation.SHARED.value, Isolation.WEIGHTED.value, LOCALITY)
_MOST_COMPARED = 4
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to schedule.

    Attributes:
        isolation: one of `ISOLATIONS`.
        policy: order within a queue.
    """

    isolation: str
    policy: str

    @property
    def name(self) -> str:
        """As `--compare` takes it."""
        return f"{self.isolation}/{self.policy}"

    def pool(self, quantum_tokens: int) -> PoolRules:
        """The pool's configuration."""
        if self.isolation == LOCALITY:
            queue = QueueRules(fair_queue=FairQueue.LOCALITY, quantum_tokens=quantum_tokens)
            return PoolRules("sim", Isolation.WEIGHTED, self.policy, queue=queue)
        return PoolRules("sim", Isolation(self.isolation), self.policy)


def variants(isolation: str, policy: str, compare: str) -> list[Variant]:
    """The ways to be run: that of the options, then those of `--compare`.

    Raises:
        CommandError: an unknown name, or more than four.
    """
    wanted = [_variant(f"{isolation}/{policy}", isolation, policy, "--isolation/--policy")]
    for text in filter(None, (part.strip() for part in compare.split(","))):
        one = _variant(text, isolation, policy, "--compare")
        if one not in wanted:
            wanted.append(one)
    if len(wanted) > _MOST_COMPARED:
        raise CommandError(f"--compare makes {len(wanted)} runs; at most {_MOST_COMPARED}")
    return wanted


def _variant(text: str, isolation: str, policy: str, option: str) -> Variant:
    for part in text.split("/"):
        if part in ISOLATIONS:
            isolation = part
        elif part in POLICIES:
            policy = part
        else:
            known = ", ".join((*ISOLATIONS, *POLICIES))
            raise CommandError(f"{option} has {part!r}; known are {known}, and pairs such as a/b")
    return Variant(isolation, policy)


def workload(trace: str, format_name: str, options: WorkloadOptions) -> Workload:
    """The load: a preset of that name, else a file. Raises CommandError."""
    try:
        if trace in PRESETS and not format_name:
            return workload_of_preset(PRESETS[trace], options)
        if not Path(trace).exists():
            raise TraceError(
                f"--trace: no file {trace}, and no preset; presets: {', '.join(PRESETS)}"
            )
        return workload_of_file(Path(trace), options, format_name)
    except TraceError as error:
        raise CommandError(str(error)) from None


def weights_of(text: str) -> dict[str, int]:
    """Reads `t1=3,t2=1`. Raises CommandError."""
    weights = {}
    for part in filter(None, text.split(",")):
        tenant, _, weight = part.partition("=")
        if not tenant or not weight.isdigit():
            raise CommandError(
                f"--weights has {part!r}; it must be TENANT=WEIGHT, weights 1 to 1000"
            )
        weights[tenant.strip()] = int(weight)
    return weights


def check_weighted(load: Workload, weights: Mapping[str, int]) -> None:
    """Raises CommandError for a weight of a tenant that the load does not have."""
    there = {request.tenant_id for request in load.requests}
    unknown = sorted(weights.keys() - there)
    if unknown:
        some = sorted(there)[:_MOST_NAMED]
        more = f" and {len(there) - len(some)} more" if len(there) > len(some) else ""
        raise CommandError(
            f"--weights names {', '.join(unknown)}; the load's tenants are {', '.join(some)}{more}"
        )


def setups(base: Setup, ways: Sequence[Variant], quantum_tokens: int) -> list[Setup]:
    """The same fleet under each way to schedule."""
    return [replace(base, pool=way.pool(quantum_tokens)) for way in ways]
