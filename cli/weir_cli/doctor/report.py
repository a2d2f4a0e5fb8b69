"""Tells a verdict: to a person, or to a program."""

import json
from dataclasses import asdict

from weir_cli.doctor.finding import Finding, Symptom, Verdict

_HEADS = {
    Symptom.FAULT: "fault",
    Symptom.THROUGHPUT: "throughput fell",
    Symptom.TTFT: "first token later",
    Symptom.REFUSALS: "requests refused",
    Symptom.TENANT: "tenant slowed",
}


def verdict_text(verdict: Verdict, looked_at: str) -> str:
    """For a person."""
    blocks = [_block(place, finding) for place, finding in enumerate(verdict.findings, 1)]
    if not verdict.findings:
        blocks.append("Nothing is wrong that can be told from here.")
    notes = "\n".join(f"- {note}" for note in (*verdict.notes, looked_at))
    return "\n\n".join([*blocks, notes])


def verdict_json(verdict: Verdict, looked_at: str) -> str:
    """For a program."""
    told = {
        "healthy": not verdict.findings,
        "findings": [asdict(finding) for finding in verdict.findings],
        "notes": verdict.notes,
        "looked_at": looked_at,
    }
    return json.dumps(told, indent=2)


def _block(place: int, finding: Finding) -> str:
    head = f"{place}. {finding.cause}"
    if finding.subject:
        head += f" ({finding.subject})"
    explains = "" if finding.symptom is Symptom.FAULT else f", explains {finding.share:.0%}"
    lines = [f"{head}: {_HEADS[finding.symptom]}{explains}"]
    lines += [f"   {told}" for told in finding.evidence]
    lines.append(f"   Remedy: {finding.remedy}")
    return "\n".join(lines)
