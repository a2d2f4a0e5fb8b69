"""Turns an `Authorization` header into a caller."""

import hmac

from weir.directory.v1.directory_pb2 import ApiKey
from weir_core.clock import Clock
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.directory.follower import Directory
from weir_gateway.keys import hash_key, is_well_formed

_SCHEME = "bearer "
_LONGEST_HEADER = 512
_HOW = "send `Authorization: Bearer <API key>`"


class Authenticator:
    """Checks keys against the current directory; a revocation holds from the next call on.

    A key is looked up by its SHA-256, so that neither the look-up nor its time tells
    anything about other keys. No error quotes any part of what was sent.

    Args:
        directory: who is known.
        clock: time.
        uses: gets every key that was let in.
    """

    def __init__(self, directory: Directory, clock: Clock, uses: KeyUses | None = None) -> None:
        self._uses = uses if uses is not None else KeyUses()
        self._directory = directory
        self._clock = clock
        self._callers: dict[str, Caller] = {}
        self._version = 0

    def authenticate(self, header: str | None) -> Caller:
        """The caller whose key stands in an `Authorization` header.

        Raises:
            WeirError: API_KEY_MISSING, API_KEY_INVALID, API_KEY_EXPIRED, API_KEY_REVOKED,
                TENANT_SUSPENDED or DIRECTORY_UNAVAILABLE.
        """
        index = self._directory.required
        digest = hash_key(_bearer(header))
        key = index.key_by_hash(digest)
        if key is None or not any(hmac.compare_digest(digest, known) for known in key.hashes):
            raise WeirError(
                Reason.API_KEY_INVALID, "the API key is not known; check it, or make a new one"
            )
        caller = self._caller(index, key)
        self.check_standing(caller)
        self._uses.note(key.id, self._clock.now_ms())
        return caller

    def standing(self, tenant_id: str, key_id: str) -> Caller:
        """The caller who once came with a key of a tenant, as the directory has it now.

        Raises:
            WeirError: as `check_standing`, or DIRECTORY_UNAVAILABLE.
        """
        index = self._directory.required
        key = index.key(key_id)
        if key is None or key.tenant_id != tenant_id:
            raise WeirError(Reason.API_KEY_REVOKED, "the API key was revoked; make a new one")
        caller = self._caller(index, key)
        self.check_standing(caller)
        return caller

    def check_standing(self, caller: Caller) -> None:
        """Checks that a caller of an earlier moment is still welcome.

        Raises:
            WeirError: API_KEY_REVOKED, API_KEY_EXPIRED or TENANT_SUSPENDED.
        """
        index = self._directory.required
        key = index.key(caller.key_id)
        if key is None or key.revoked or key.tenant_id != caller.tenant_id:
            raise WeirError(Reason.API_KEY_REVOKED, "the API key was revoked; make a new one")
        expire_us = key.expire_time.ToMicroseconds() if key.HasField("expire_time") else 0
        if expire_us and self._clock.now_us() >= expire_us:
            when = key.expire_time.ToJsonString()
            raise WeirError(
                Reason.API_KEY_EXPIRED, f"the API key expired at {when}; make a new one"
            )
        tenant = index.tenant(caller.tenant_id)
        if tenant is None or tenant.suspended:
            raise WeirError(
                Reason.TENANT_SUSPENDED, "the account is suspended; ask its administrator"
            )

    def _caller(self, index: DirectoryIndex, key: ApiKey) -> Caller:
        if index.version != self._version:
            self._callers.clear()
            self._version = index.version
        caller = self._callers.get(key.id)
        if caller is None:
            caller = self._callers[key.id] = _build(index, key)
        return caller


def _bearer(header: str | None) -> str:
    if not header:
        raise WeirError(Reason.API_KEY_MISSING, f"no API key was sent; {_HOW}")
    if header[: len(_SCHEME)].lower() != _SCHEME:
        raise WeirError(Reason.API_KEY_INVALID, f"the authorization is not of type Bearer; {_HOW}")
    key = header[len(_SCHEME) :].strip()
    if not key:
        raise WeirError(Reason.API_KEY_MISSING, f"the API key is empty; {_HOW}")
    if len(header) > _LONGEST_HEADER or not is_well_formed(key):
        raise WeirError(
            Reason.API_KEY_INVALID,
            "the API key is malformed: its form or its checksum is wrong; was it cut or mistyped?",
        )
    return key


def _build(index: DirectoryIndex, key: ApiKey) -> Caller:
    tenant = index.tenant(key.tenant_id)
    return Caller(
        tenant_id=key.tenant_id,
        user_id=key.user_id,
        key_id=key.id,
        plan_id=tenant.plan_id if tenant else "",
        policy=index.policy(key.tenant_id),
        key_models=frozenset(key.allowed_models),
        expire_us=key.expire_time.ToMicroseconds() if key.HasField("expire_time") else 0,
        version=index.version,
    )
