"""Creates, rotates and revokes API keys; a secret is shown once and stored nowhere."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from weir.directory.v1.directory_pb2 import ApiKey
from weir.gateway.v1.admin_service_pb2 import CreateKeyRequest
from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_gateway.directory.sql.entry_form import key_form
from weir_gateway.directory.sql.records import Draft, Kind, Record, Sent
from weir_gateway.directory.sql.source import SqlDirectory
from weir_gateway.keys import NewKey, generate_key

_LONGEST_OVERLAP = timedelta(days=30)
_LAST_YEAR = 9_000


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key with its new secret."""

    key: ApiKey
    secret: str


class KeyRing:
    """What an administrator does with keys. Methods raise WeirError."""

    def __init__(self, source: SqlDirectory, clock: Clock, env: str = "live") -> None:
        self._source = source
        self._clock = clock
        self._env = env

    async def create(self, actor: str, request: CreateKeyRequest) -> MadeKey:
        """Makes a key of a user."""
        if request.HasField("expire_time"):
            self._check_expiry(request.expire_time)
        made = generate_key(self._env)
        key = ApiKey(
            id=made.id,
            tenant_id=request.tenant_id,
            user_id=request.user_id,
            name=request.name,
            hashes=[made.hash],
            allowed_models=request.allowed_models,
        )
        if request.HasField("expire_time"):
            key.expire_time.CopyFrom(request.expire_time)

        def edit(draft: Draft) -> None:
            draft.get(Kind.TENANT, key.tenant_id, "tenant_id")
            draft.get(Kind.USER, f"{key.tenant_id}/{key.user_id}", "user_id")
            draft.sent.append(Sent(Kind.KEY, key.id, key))
            draft.put(Record(Kind.KEY, key.id, key.tenant_id, key_form(key)), "create")

        return await self._change(actor, edit, made, key.id)

    async def rotate(self, actor: str, key_id: str, overlap: timedelta) -> MadeKey:
        """Gives a key a new secret; the one before works until the overlap ends."""
        if not timedelta() <= overlap <= _LONGEST_OVERLAP:
            raise InvalidField("overlap", str(overlap), "from 0 to 30 days")
        made = generate_key(self._env, key_id)

        def edit(draft: Draft) -> None:
            record = draft.get(Kind.KEY, key_id, "api_key_id")
            if record.body.get("revoked"):
                raise InvalidField("api_key_id", key_id, "a key that is not revoked")
            now_ms = self._clock.now_ms()
            if _has_expired(record.body.get("expires"), now_ms):
                raise InvalidField(
                    "api_key_id", key_id, "a key that has not expired; make a new one instead"
                )
            kept = record.body["hashes"][:1] if overlap else []
            body = record.body | {"hashes": [made.hash.hex(), *kept]}
            end_ms = now_ms + overlap // timedelta(milliseconds=1) if overlap else None
            draft.put(replace(record, body=body, overlap_end_ms=end_ms), "rotate")

        return await self._change(actor, edit, made, key_id)

    async def revoke(self, actor: str, key_id: str) -> int:
        """Ends a key for good; returns the directory's version. Twice is once."""

        def edit(draft: Draft) -> None:
            record = draft.get(Kind.KEY, key_id, "api_key_id")
            if not record.body.get("revoked"):
                draft.put(replace(record, body=record.body | {"revoked": True}), "revoke")

        return (await self._source.change(actor, edit)).version

    async def last_uses(self, keys: Iterable[ApiKey]) -> dict[str, Timestamp]:
        """When keys were used last, to the minute, by id; those never used are left out."""
        found = await self._source.uses([key.id for key in keys])
        times = {key_id: Timestamp() for key_id in found}
        for key_id, time in times.items():
            time.FromMilliseconds(found[key_id])
        return times

    async def _change(
        self, actor: str, edit: Callable[[Draft], None], made: NewKey, key_id: str
    ) -> MadeKey:
        changed = await self._source.change(actor, edit)
        key = changed.index.key(key_id)
        assert key is not None
        return MadeKey(without_hashes(key), made.secret)

    def _check_expiry(self, time: Timestamp) -> None:
        try:
            at = time.ToDatetime()
        except ValueError as error:
            raise InvalidField("expire_time", str(error), "a time from 1970 on") from None
        if time.ToMicroseconds() <= self._clock.now_us() or at.year > _LAST_YEAR:
            raise InvalidField("expire_time", time.ToJsonString(), "a time to come, by year 9000")


def _has_expired(expires: str | None, now_ms: int) -> bool:
    if expires is None:
        return False
    end = Timestamp()
    end.FromJsonString(expires)
    return end.ToMilliseconds() <= now_ms


def without_hashes(key: ApiKey) -> ApiKey:
    """A key as administrators see it."""
    shown = ApiKey()
    shown.CopyFrom(key)
    shown.ClearField("hashes")
    return shown
