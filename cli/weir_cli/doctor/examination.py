"""Looks for everything that may be wrong, and ranks what it finds."""

from collections.abc import Sequence
from dataclasses import replace

from weir_cli.doctor.cause import Cause
from weir_cli.doctor.causes.batch_window import BatchWindow
from weir_cli.doctor.causes.device_taken import DeviceTaken
from weir_cli.doctor.causes.kv_pressure import KvPressure
from weir_cli.doctor.causes.long_prompts import LongPrompts
from weir_cli.doctor.causes.prefix_hits_lost import PrefixHitsLost
from weir_cli.doctor.causes.queue_grew import QueueGrew
from weir_cli.doctor.causes.slow_intake import SlowIntake
from weir_cli.doctor.causes.tenant_cap import TenantCap
from weir_cli.doctor.causes.tight_limits import TightLimits
from weir_cli.doctor.causes.workers_gone import WorkersGone
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess
from weir_cli.doctor.fault import Fault
from weir_cli.doctor.faults.degraded_store import DegradedStore
from weir_cli.doctor.faults.failures import Failures
from weir_cli.doctor.faults.ledger_lag import LedgerLag
from weir_cli.doctor.faults.no_worker import NoWorker
from weir_cli.doctor.faults.parts_away import PartsAway
from weir_cli.doctor.faults.worker_states import WorkerStates
from weir_cli.doctor.finding import Finding, Symptom, Verdict
from weir_cli.doctor.refusals import refusals
from weir_cli.doctor.statistics import FEWEST
from weir_cli.doctor.throughput import throughput_fell
from weir_cli.doctor.ttft import ttft_rose

NEGLIGIBLE = 0.1
"""Share of a symptom below which a cause is not told: it moves with the noise of the others."""

UNKNOWN = "unknown"
CAUSES: tuple[Cause, ...] = (
    WorkersGone(),
    LongPrompts(),
    PrefixHitsLost(),
    KvPressure(),
    TightLimits(),
    DeviceTaken(),
    QueueGrew(),
    TenantCap(),
    BatchWindow(),
    SlowIntake(),
)
MOMENTARY: tuple[Fault, ...] = (PartsAway(), NoWorker(), WorkerStates())
"""Faults that a machine which stands still for a second shows too: told if two looks in a row
show them."""
LASTING: tuple[Fault, ...] = (DegradedStore(), LedgerLag(), Failures())


def examine(evidence: Evidence) -> Verdict:
    """Everything: faults first, then slowness and refusals by what they explain."""
    verdict = Verdict([*_momentary(evidence), *_lasting(evidence)])
    slow = Verdict()
    slow.add(throughput(evidence))
    slow.add(ttft(evidence))
    verdict.notes += slow.notes
    verdict.findings += ranked([*slow.findings, *refusals(evidence)])
    return verdict


def throughput(evidence: Evidence) -> Verdict:
    """Why throughput fell, if it did."""
    return _each_model(evidence, Symptom.THROUGHPUT)


def ttft(evidence: Evidence) -> Verdict:
    """Why the first token comes later, if it does."""
    return _each_model(evidence, Symptom.TTFT)


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for each cause and subject, by the largest share that it explains.

    What has no known cause comes last: a known one may be behind it.
    """
    merged: dict[tuple[str, str], Finding] = {}
    for one in findings:
        known = merged.get((one.cause, one.subject))
        if known is None:
            merged[one.cause, one.subject] = one
        else:
            merged[one.cause, one.subject] = replace(known, share=max(known.share, one.share))
    return sorted(merged.values(), key=lambda one: (one.cause == UNKNOWN, -one.share))


def _lasting(evidence: Evidence) -> list[Finding]:
    return [finding for fault in LASTING for finding in fault.check(evidence)]


def _momentary(evidence: Evidence) -> list[Finding]:
    """Those of the newest look that the look before it saw of the same part, in whatever state."""
    found, earlier = [], evidence.a_look_earlier
    for fault in MOMENTARY:
        now = list(fault.check(evidence))
        if earlier is not None:
            known = {one.subject for one in fault.check(earlier)}
            now = [one for one in now if one.subject in known]
        found += now
    return found


def _each_model(evidence: Evidence, symptom: Symptom) -> Verdict:
    verdict = Verdict()
    for model in evidence.models():
        verdict.add(_of_model(evidence.of(model=model), model, symptom))
    if not evidence.models():
        verdict.notes.append(f"{symptom}: no requests were seen")
    verdict.findings = ranked(verdict.findings)
    return verdict


def _of_model(evidence: Evidence, model: str, symptom: Symptom) -> Verdict:
    recent, before = evidence.recent.answered, evidence.baseline.answered
    if min(recent, before) < FEWEST:
        return Verdict(
            notes=[
                f"{symptom} of {model}: not enough requests to tell: {recent} answered recently, "
                f"{before} before; {FEWEST} are needed of each"
            ]
        )
    excess = throughput_fell(evidence) if symptom is Symptom.THROUGHPUT else ttft_rose(evidence)
    if excess is None:
        return Verdict()
    found = [cause.check(evidence, excess) for cause in CAUSES]
    told = [one for one in found if one is not None and one.share >= NEGLIGIBLE]
    note = f"{model}: {excess.told}"
    if told and excess.sources:
        note += f"; it comes from: {excess.sources}"
    return Verdict(told or [_unknown(excess, model)], [note])


def _unknown(excess: Excess, model: str) -> Finding:
    sources = excess.sources
    return Finding(
        cause=UNKNOWN,
        symptom=excess.symptom,
        share=1.0,
        subject=model,
        evidence=(
            excess.told,
            f"it comes from: {sources}" if sources else "nothing measured explains it",
        ),
        remedy="compare `weir top` with the time before, and follow single requests with "
        "`weir explain`",
    )
