"""Each cause, made on a real stack by load and settings alone: `weir doctor` names it first."""

from typing import Any

import pytest

from tests.doctor.examining import check
from tests.doctor.patients import OF_ALL, Patient, cases
from tests.doctor.site import Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("patient", cases(OF_ALL))
async def test_the_doctor_names_what_is_the_matter(
    site: Site, patient: Patient, record_property: Any
) -> None:
    await check(site, patient, record_property)
