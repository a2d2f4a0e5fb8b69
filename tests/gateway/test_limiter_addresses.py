import pytest

from weir_core.errors.startup import StartupError
from weir_gateway.links.limiter_channel import target


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("limiter:8002", "limiter:8002"),
        ("dns:///limiter:8002", "dns:///limiter:8002"),
        ("10.0.0.1:8002, 10.0.0.2:8003", "ipv4:10.0.0.1:8002,10.0.0.2:8003"),
        ("[::1]:1,[::2]:2", "ipv6:[::1]:1,[::2]:2"),
    ],
)
def test_addresses_become_one_target(address: str, expected: str) -> None:
    assert target(address) == expected


@pytest.mark.parametrize("address", ["a:1,b:2", "10.0.0.1:1,[::1]:2", "limiter", "a:1,"])
def test_addresses_that_cannot_be_used_name_the_setting(address: str) -> None:
    with pytest.raises(StartupError, match="ratelimiter_address"):
        target(address)
