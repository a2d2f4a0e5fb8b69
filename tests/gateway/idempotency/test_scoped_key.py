"""What makes two requests with one key the same."""

import pytest

from weir.directory.v1.directory_pb2 import Policy
from weir_core.errors import InvalidField, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.idempotency.scoped_key import ScopedKey, canonical_json, scoped_key
from weir_gateway.openai.json_body import parse_object


def key_of(key: str = "order", *, user: str = "alice", models: tuple[str, ...] = ()) -> ScopedKey:
    caller = Caller(
        tenant_id="acme",
        user_id=user,
        key_id="k",
        plan_id="p",
        policy=Policy(),
        key_models=frozenset(models),
        expire_us=0,
        version=1,
    )
    return scoped_key(caller, "/v1/x", key, b"{}", field="Idempotency-Key")


def test_an_api_key_of_other_models_or_users_replays_nothing() -> None:
    prints = {
        key_of(user=user, models=models).fingerprint
        for user in ("alice", "bob")
        for models in ((), ("small",), ("small", "large"))
    }
    assert len(prints) == 6
    assert key_of(models=("b", "a")) == key_of(models=("a", "b"))


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0", "ä", "a\n"])
def test_a_key_is_printable_ascii(key: str) -> None:
    with pytest.raises(InvalidField, match="1 to 255 printable ASCII"):
        key_of(key)


def test_bodies_are_compared_by_their_meaning() -> None:
    one = canonical_json(parse_object(b'{"a": 1, "b": {"c": "\\u00e4", "d": []}}'))
    two = canonical_json(parse_object(' {"b":{"d":[],"c":"ä"},\n"a":1}'.encode()))
    assert one == two
    assert one != canonical_json(parse_object(b'{"a": "1", "b": {"c": "\\u00e4", "d": []}}'))


def test_a_body_that_can_just_be_read_is_refused_by_name_where_it_cannot_be_written() -> None:
    """Reading and writing reach the bound of the recursion at different depths."""
    for depth in range(200, 1_100):
        body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
        assert _refusal(body) in (None, "the request body cannot be read: it is nested too deeply")


def _refusal(body: bytes) -> str | None:
    try:
        canonical_json(parse_object(body))
    except WeirError as error:
        return error.message
    return None
