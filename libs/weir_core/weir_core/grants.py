"""Grants: the scheduler's signed permission to run one attempt on one worker."""

import hashlib
import hmac

from google.protobuf.message import DecodeError

from weir.common.v1.lifecycle_pb2 import Grant, SignedGrant
from weir_core.errors import Reason, WeirError

_PURPOSE = b"weir.grant.v1\0"


def sign_grant(grant: Grant, secret: bytes) -> SignedGrant:
    """Serialises and signs a grant with HMAC-SHA256."""
    payload = grant.SerializeToString(deterministic=True)
    return SignedGrant(grant=payload, signature=_signature(payload, secret))


def verify_grant(signed: SignedGrant, secret: bytes, *, worker_id: str, now_us: int) -> Grant:
    """Returns the grant, if it is genuine, for this worker and not expired.

    Raises:
        WeirError: GRANT_INVALID, saying which of these failed.
    """
    if not hmac.compare_digest(signed.signature, _signature(signed.grant, secret)):
        raise _invalid("its signature does not verify; do both services share the cluster secret?")
    try:
        grant = Grant.FromString(signed.grant)
    except DecodeError:
        raise _invalid("it cannot be decoded") from None
    if grant.worker_id != worker_id:
        raise _invalid(f"it is for worker {grant.worker_id!r}, this is {worker_id!r}")
    if grant.expire_time.ToMicroseconds() <= now_us:
        raise _invalid(f"it expired at {grant.expire_time.ToJsonString()}; are the clocks in step?")
    return grant


def _signature(payload: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, _PURPOSE + payload, hashlib.sha256).digest()


def _invalid(why: str) -> WeirError:
    return WeirError(Reason.GRANT_INVALID, f"the grant was refused: {why}")
