"""A Valkey that the tests of a session share."""

from tests.ratelimiter.conftest import valkey, valkey_server

__all__ = ["valkey", "valkey_server"]
