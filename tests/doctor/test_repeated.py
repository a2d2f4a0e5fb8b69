"""Every patient several times, for the confusion matrix: a soak test."""

import os
from typing import Any

import pytest

from tests.doctor.conftest import NOTHING, PROPERTY
from tests.doctor.patients import EVERY, Patient
from tests.doctor.site import Site
from tests.doctor.test_diagnosis import examine

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
    pytest.mark.soak,
]
TIMES = int(os.environ.get("DOCTOR_TIMES", "3"))


@pytest.mark.parametrize("time", range(TIMES))
@pytest.mark.parametrize("patient", EVERY, ids=lambda patient: patient.name)
async def test_again_and_again(
    site: Site, patient: Patient, time: int, record_property: Any
) -> None:
    told = await examine(site, patient)
    causes = [finding["cause"] for finding in told["findings"]]
    said = causes[0] if causes else NOTHING
    expected = said if said in patient.first else (patient.first or (NOTHING,))[0]
    record_property(PROPERTY, (patient.name, expected, said))
    assert said == expected, told
