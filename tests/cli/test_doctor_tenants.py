"""Tenants that a diagnosis is asked about have to be there."""

import pytest

from tests.cli.command import weir
from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.known_tenants import check_tenants
from weir_cli.doctor.splitting import split
from weir_cli.doctor.stretch import Stretch
from weir_cli.errors import CommandError

NOBODY = "127.0.0.1:1"
"""Where no gateway answers."""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ADMIN_SECRET", "of-an-administrator-0123456789abcdef")


def test_one_that_had_requests_is_known_without_asking() -> None:
    check_tenants(_evidence("acme", "globex"), {"--against": "globex"}, NOBODY, None)


def test_one_that_is_nowhere_is_told_with_those_that_are_known() -> None:
    with pytest.raises(CommandError) as told:
        check_tenants(_evidence("globex", "acme"), {"--against": "globxe"}, NOBODY, None)
    assert str(told.value) == (
        "--against is 'globxe': no request of such a tenant was seen; seen: acme, globex"
    )


def test_where_the_least_busy_are_told_as_one_it_may_be_among_them() -> None:
    check_tenants(_evidence("acme", "other"), {"--against": "globex"}, NOBODY, None)


def test_of_many_known_ones_the_number_is_told() -> None:
    many = [f"t{number:02}" for number in range(30)]
    with pytest.raises(CommandError, match=r"t19 and 10 more$"):
        check_tenants(_evidence(*many), {"TENANT": "x"}, NOBODY, None)


def test_nobody_accuses_itself() -> None:
    ended = weir("doctor", "tenant", "acme", "--against", "acme")
    assert ended.returncode == 2
    assert "--against is 'acme', who complains" in ended.stderr


def _evidence(*tenants: str) -> Evidence:
    samples = []
    for second in range(1, 61):
        sample = HistorySample(far_read=True)
        sample.end_time.FromSeconds(second)
        sample.duration.FromSeconds(1)
        for tenant in tenants:
            sample.flows.add(tenant_id=tenant, model="m", arrivals=1)
        samples.append(sample)
    return split(samples, Stretch(30), Stretch(30))
