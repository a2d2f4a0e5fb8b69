"""Tenant A says that tenant B slows it: does anybody, who, and what helps?"""

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.finding import Finding, Symptom, Verdict
from weir_cli.doctor.isolation import isolation_finding
from weir_cli.doctor.neighbours import culprit_of, neighbours_of
from weir_cli.doctor.statistics import FEWEST, median
from weir_cli.doctor.throughput import throughput_fell
from weir_cli.doctor.tokens_for_each import TokensForEach
from weir_cli.doctor.ttft import ttft_rose
from weir_cli.doctor.waiting import Blocked

OWN_LIMIT = 0.5
"""Of its waits, or of its requests that are refused: then its own bounds slow it."""
REFUSED = 0.1
"""Of its requests."""
WAITS = 0.5
"""Requests of it that wait on average; fewer come and go by chance."""
LARGER = 1.5
"""Times the tokens of one of its requests; they vary by less from minute to minute."""


def of_tenant(evidence: Evidence, tenant: str, against: str = "") -> Verdict:
    """What slows a tenant, over all models that it uses."""
    mine = evidence.of(tenant=tenant)
    # Of all models at once: what a rate refuses was refused before its model was known.
    verdict = _own_refusals(mine, tenant)
    models = mine.models()
    for model in models:
        verdict.add(tenant_slowed(evidence.of(model=model), tenant, against))
    if not models:
        verdict.notes.append(f"not enough requests to tell: none of tenant {tenant} was seen")
    return verdict


def tenant_slowed(evidence: Evidence, tenant: str, against: str = "") -> Verdict:
    """What slows a tenant, of one model.

    Args:
        evidence: of the model, of everybody.
        tenant: who complains.
        against: whom it accuses; empty: whoever it is.
    """
    mine = evidence.of(tenant=tenant)
    verdict = Verdict()
    few = min(mine.recent.answered, mine.baseline.answered)
    if few < FEWEST:
        verdict.notes.append(
            f"not enough requests of tenant {tenant} to tell: {mine.recent.answered} recently, "
            f"{mine.baseline.answered} before; {FEWEST} are needed of each"
        )
        return verdict
    excess = ttft_rose(mine) or throughput_fell(mine)
    if excess is None:
        verdict.notes.append(_well(mine, tenant))
        return verdict
    verdict.notes.append(f"tenant {tenant} is slower: {excess.told}")
    own = _own_cap(mine, tenant) or _own_prompts(mine, tenant)
    if own is not None:
        verdict.findings.append(own)
        return verdict
    verdict.add(_of_neighbours(evidence, tenant, against))
    return verdict


def _of_neighbours(evidence: Evidence, tenant: str, against: str) -> Verdict:
    """Who of the others is felt, and what helps."""
    verdict = Verdict()
    neighbours = neighbours_of(evidence, tenant)
    culprit = culprit_of(neighbours, waits=evidence.of(tenant=tenant).waiting.all >= WAITS)
    accused = [one for one in neighbours if one.name == against]
    if against and (culprit is None or culprit.name != against):
        now, before = (accused[0].now, accused[0].before) if accused else (0.0, 0.0)
        verdict.notes.append(
            f"tenant {against} does not slow it: {now:.0f} tokens/s are served to {against}, "
            f"{before:.0f} before"
        )
    if culprit is None:
        verdict.notes.append(f"no other tenant slows {tenant}; `weir doctor` says what does")
    elif finding := isolation_finding(evidence, tenant, culprit):
        verdict.findings.append(finding)
    else:
        verdict.notes.append(
            f"steps take longer whoever is in them: it is not {culprit.name} that slows {tenant}; "
            "`weir doctor throughput` says what does"
        )
    return verdict


def _well(mine: Evidence, tenant: str) -> str:
    old, new = mine.baseline.values("ttft"), mine.recent.values("ttft")
    return (
        f"nobody slows tenant {tenant}: its first token comes after {1e3 * median(new):.0f} ms "
        f"(median), {1e3 * median(old):.0f} ms before, over {new.count} and {old.count} requests"
    )


def _own_refusals(mine: Evidence, tenant: str) -> Verdict:
    refused, arrived = mine.recent.refused, mine.recent.total("arrivals")
    verdict = Verdict()
    if refused < FEWEST or refused < REFUSED * (refused + arrived):
        return verdict
    limits = {
        (one.limit_id, one.knob)
        for flow in mine.recent.flows
        for one in flow.refused
        if one.limit_id
    }
    names = ", ".join(sorted(limit for limit, _ in limits))
    knobs = "; ".join(sorted({knob for _, knob in limits if knob}))
    verdict.findings.append(
        Finding(
            cause="own_limit",
            symptom=Symptom.TENANT,
            share=refused / (refused + arrived),
            subject=tenant,
            evidence=(
                f"its own limits refused {refused} of {refused + arrived} requests: {names}",
            ),
            remedy=knobs or f"raise the limit of {tenant}",
        )
    )
    return verdict


def _own_cap(mine: Evidence, tenant: str) -> Finding | None:
    waiting = mine.waiting
    capped = waiting.of(Blocked.TENANT_CAP)
    if not capped or capped < OWN_LIMIT * waiting.all:
        return None
    return Finding(
        cause="own_limit",
        symptom=Symptom.TENANT,
        share=capped / waiting.all,
        subject=tenant,
        evidence=(
            f"{capped:.1f} of the {waiting.all:.1f} requests that wait do so at its own "
            "max_running_requests",
        ),
        remedy=f"raise `max_running_requests` in the policy of {tenant} or of its plan",
    )


def _own_prompts(mine: Evidence, tenant: str) -> Finding | None:
    """It asks for more itself, and nobody else does."""
    before, now = TokensForEach.of(mine.baseline), TokensForEach.of(mine.recent)
    if now.computed + now.output < LARGER * (before.computed + before.output):
        return None
    return Finding(
        cause="own_requests",
        symptom=Symptom.TENANT,
        share=1.0,
        subject=tenant,
        evidence=(
            f"its requests are larger: {now.computed:.0f} prompt tokens computed and "
            f"{now.output:.0f} made for each, {before.computed:.0f} and {before.output:.0f} before",
        ),
        remedy="that is its own doing: shorter prompts, common beginnings, or fewer tokens asked",
    )
