"""One patient examined: both phases, what the doctor says, and by what margin."""

import json
from typing import Any

from tests.doctor.conftest import NOTHING, PROPERTY
from tests.doctor.hindrances import halting
from tests.doctor.patients import Patient
from tests.doctor.site import Site


async def check(site: Site, patient: Patient, record_property: Any) -> None:
    """The doctor names first what is the matter, with numbers and a remedy."""
    told = await examine(site, patient)
    causes = [finding["cause"] for finding in told["findings"]]
    said = causes[0] if causes else NOTHING
    expected = said if said in patient.first else (patient.first or (NOTHING,))[0]
    record_property(PROPERTY, (patient.name, expected, said, _margin(site, told)))
    assert said == expected, json.dumps(told, indent=1)
    assert set(patient.also) <= set(causes[:3]), told
    for finding in told["findings"]:
        assert finding["remedy"]
        assert any(sign.isdigit() for sign in "".join(finding["evidence"])), finding


async def examine(site: Site, patient: Patient) -> dict[str, Any]:
    """Both phases; what the doctor says during the second."""
    await site.change(patient.before)
    async with site.phase(patient.well, patient.judged):
        pass
    if patient.between is not None:
        await site.change(patient.between)
    slow = site.stack.stack.pids["ratelimiter"] if patient.ratelimiter_slow else None
    async with halting(slow), site.phase(patient.ill, patient.judged):
        return await site.doctor(*patient.asked)


def _margin(site: Site, told: dict[str, Any]) -> str:
    """Shares of the first causes, and the fewest answers of a tenant in each phase."""
    shares = " ".join(f"{one['cause']} {one['share']:.0%}" for one in told["findings"][:3])
    answers = "/".join(str(min(kept.answers.values())) for kept in site.phases[-2:])
    return f"{shares or NOTHING}, {answers} answers"
