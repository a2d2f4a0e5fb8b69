"""A grant is good for one worker, once signed and until it expires."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.lifecycle_pb2 import Attempt, Grant, SignedGrant
from weir_core.errors import Reason, WeirError
from weir_core.grants import sign_grant, verify_grant

SECRET = b"s" * 32


def _signed() -> SignedGrant:
    expire = Timestamp(seconds=100)
    grant = Grant(
        attempt=Attempt(request_id="r", number=2), worker_id="w1", expire_time=expire, model="m"
    )
    return sign_grant(grant, SECRET)


def test_a_genuine_grant_is_returned_whole() -> None:
    grant = verify_grant(_signed(), SECRET, worker_id="w1", now_us=99_000_000)
    assert (grant.attempt.number, grant.model) == (2, "m")


@pytest.mark.parametrize(
    ("signed", "secret", "worker", "now_us", "why"),
    [
        (_signed(), b"x" * 32, "w1", 0, "signature"),
        (SignedGrant(grant=_signed().grant + b"\0", signature=_signed().signature),
         SECRET, "w1", 0, "signature"),
        (SignedGrant(), SECRET, "w1", 0, "signature"),
        (_signed(), SECRET, "w2", 0, "worker 'w1'"),
        (_signed(), SECRET, "w1", 100_000_000, "expired"),
    ],
)  # fmt: skip
def test_a_bad_grant_says_why(
    signed: SignedGrant, secret: bytes, worker: str, now_us: int, why: str
) -> None:
    with pytest.raises(WeirError, match=why) as caught:
        verify_grant(signed, secret, worker_id=worker, now_us=now_us)
    assert caught.value.reason is Reason.GRANT_INVALID
