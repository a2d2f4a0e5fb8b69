"""Each cause, made on a real stack by load and settings alone: `weir doctor` names it first."""

import json
from typing import Any

import pytest

from tests.doctor.conftest import NOTHING, PROPERTY
from tests.doctor.hindrances import halting
from tests.doctor.patients import EVERY, Patient
from tests.doctor.site import Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "patient",
    [pytest.param(one, id=one.name, marks=[pytest.mark.soak] if one.soak else []) for one in EVERY],
)
async def test_the_doctor_names_what_is_the_matter(
    site: Site, patient: Patient, record_property: Any
) -> None:
    told = await examine(site, patient)
    causes = [finding["cause"] for finding in told["findings"]]
    said = causes[0] if causes else NOTHING
    expected = said if said in patient.first else (patient.first or (NOTHING,))[0]
    record_property(PROPERTY, (patient.name, expected, said))
    assert said == expected, json.dumps(told, indent=1)
    assert set(patient.also) <= set(causes[:3]), told
    for finding in told["findings"]:
        assert finding["remedy"]
        assert any(sign.isdigit() for sign in "".join(finding["evidence"])), finding


async def examine(site: Site, patient: Patient) -> dict[str, Any]:
    """Both phases; what the doctor says during the second."""
    await site.change(patient.before)
    async with site.phase(patient.well):
        pass
    if patient.between is not None:
        await site.change(patient.between)
    slow = site.stack.stack.pids["ratelimiter"] if patient.ratelimiter_slow else None
    async with halting(slow), site.phase(patient.ill):
        return await site.doctor(*patient.asked)
