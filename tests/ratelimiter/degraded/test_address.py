"""The setting that names a store."""

import pytest

from weir_core.errors.startup import StartupError
from weir_ratelimiter.store.address import check_address, shown


@pytest.mark.parametrize(
    "address",
    [
        "memory",
        "redis://localhost",
        "redis://user:s3cret@10.0.0.1:6379/2",
        "rediss://[::1]:6380",
        "redis+cluster://a:7000",
    ],
)
def test_an_address(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "redis",
        "localhost:6379",
        "http://localhost",
        "redis://",
        "rediss+cluster://host:7000",
        "redis://:s3cret",
        "redis://user:s3cret",
        "redis://user:s3cret@:6379",
        "redis://user:s3cret@host:port",
        "redis://user:s3cret@host:99999",
        "redis://user:s3cret@host/limits",
        "user:s3cret@host",
        "redis://user:s3cret@[host",
    ],
)
def test_what_is_none_is_told_in_one_line_without_its_password(address: str) -> None:
    with pytest.raises(StartupError) as refused:
        check_address(address)
    message = str(refused.value)
    assert message.startswith("store is ")
    assert "redis://user:password@host:port/db" in message
    assert "--store or WEIR_RATELIMITER__STORE" in message
    assert "s3cret" not in message
    assert "\n" not in message


def test_a_password_is_not_shown() -> None:
    assert shown("redis://user:s3cret@host:6379/2") == "redis://host:6379"
    assert shown("memory") == "memory"
