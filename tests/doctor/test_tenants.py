"""Tenant A says that tenant B slows it: `weir doctor tenant` says whether, and what helps."""

from typing import Any

import pytest

from tests.doctor.examining import check
from tests.doctor.patients import TENANT, Patient, cases
from tests.doctor.site import Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("patient", cases(TENANT))
async def test_the_doctor_names_what_slows_a_tenant(
    site: Site, patient: Patient, record_property: Any
) -> None:
    await check(site, patient, record_property)
