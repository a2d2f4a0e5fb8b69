"""Every patient several times, for the confusion matrix: a soak test."""

import os
from typing import Any

import pytest

from tests.doctor.examining import check
from tests.doctor.patients import EVERY, Patient
from tests.doctor.site import Site

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
    await check(site, patient, record_property)
