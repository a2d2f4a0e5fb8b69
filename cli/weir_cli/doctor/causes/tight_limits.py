"""A bound of the workers keeps work waiting that the device could do."""

from dataclasses import dataclass

from weir.gateway.v1.history_service_pb2 import WorkerSample
from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.places import Lowered, left, lowered
from weir_cli.doctor.waiting import Blocked

WAIT = 0.5
"""Requests that wait for a place on average; fewer come and go by chance."""
IDLE = 0.7
"""Share of the device that the worker uses, below which it could do more."""
NEARLY = 0.9
"""Of a bound: whoever is so near is held by it."""
SECOND = 0.5
"""Weight against the growth of demand, where wider bounds would have carried it."""

_KNOBS = {
    "max_batch_size": "`max_batch_size` of the model's parameters",
    "max_concurrent_requests": "`max_concurrent_requests` of the model's parameters, and that of "
    "the worker's settings",
    "max_batch_tokens": "`max_batch_tokens` of the model's parameters",
    "max_step_tokens": "`max_step_tokens` of the model's parameters and of the worker's settings",
    "max_running_long": "`max_running_long` of the model's parameters",
}


@dataclass(frozen=True, slots=True)
class _Bound:
    name: str
    told: str


class TightLimits:
    """The bounds of a batch, of a step or of a worker bind while work waits."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        fell = lowered(evidence.baseline, evidence.recent)
        bound = _fallen(fell) if fell is not None else _binding(evidence)
        own = evidence.recent.work.own_share
        idle = own is None or own < IDLE
        # Bounds of the workers that are left bind because the others are gone.
        mine = idle and not left(evidence.baseline, evidence.recent)
        if bound is None or not (fell is not None or mine):
            return None
        share = excess.share(*_parts(bound.name))
        if fell is None:
            share += SECOND * excess.share(Part.DEMAND)
        if not share:
            return None
        used = "" if own is None else f"; the workers use {percent(own)} of the device"
        waits = evidence.waiting.of(Blocked.FULL)
        return Finding(
            cause="tight_limits",
            symptom=excess.symptom,
            share=share,
            subject=evidence.recent.model,
            evidence=(
                bound.told,
                f"{waits:.1f} requests wait for a place on average, "
                f"{evidence.waited.of(Blocked.FULL):.1f} before{used}",
            ),
            remedy=f"raise {_KNOBS[bound.name]}; docs/diagnosis.md says how far",
        )


def _parts(name: str) -> tuple[Part, ...]:
    if name == "max_step_tokens":
        return (Part.FULL, Part.SMALL_STEPS, Part.CROWDED)
    return (Part.FULL, Part.SMALL_STEPS)


def _fallen(fell: Lowered) -> _Bound:
    return _Bound(fell.name, f"{fell.name} is {fell.after}; it was {fell.before}")


def _binding(evidence: Evidence) -> _Bound | None:
    """The bound that what waits waits for."""
    recent, reasons = evidence.recent, evidence.waiting.by_reason
    if evidence.waiting.of(Blocked.FULL) < WAIT:
        return _step_bound(evidence)
    if reasons.get("long_cap", 0.0) > max(
        reasons.get("batch_full", 0.0), reasons.get("worker_full", 0.0)
    ):
        return _Bound("max_running_long", "long prompts wait for each other: max_running_long")
    running = recent.mean_of_workers(lambda one: one.view.running_attempts)
    name = "max_concurrent_requests"
    if reasons.get("batch_full", 0.0) >= reasons.get("worker_full", 0.0):
        size = recent.mean_of_workers(lambda one: one.view.parameters.max_batch_size)
        name = "max_batch_size" if running >= NEARLY * size else "max_batch_tokens"
    most = recent.mean_of_workers(lambda one: getattr(one.view.parameters, name))
    return _Bound(name, f"{name} is {most:.0f} and binds: {running:.1f} run on a worker")


def _step_bound(evidence: Evidence) -> _Bound | None:
    """Prompts that wait for their turn in the steps."""
    recent = evidence.recent
    most = recent.mean_of_workers(lambda one: one.view.load.max_step_tokens)
    pending = recent.mean_of_workers(_pending)
    if not most or pending < most:
        return None
    return _Bound(
        "max_step_tokens",
        f"max_step_tokens is {most:.0f}; {pending:.0f} prompt tokens wait in a worker on average",
    )


def _pending(worker: WorkerSample) -> float:
    return float(worker.view.load.pending_prefill_tokens)
