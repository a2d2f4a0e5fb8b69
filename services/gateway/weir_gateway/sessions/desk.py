"""What callers do with their sessions."""

import time

from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.ids import is_caller_id
from weir_core.telemetry.logs import get_logger
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.checks import check_conversation_id
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.session_turn import SessionTurn
from weir_gateway.sessions.cache import SessionCache
from weir_gateway.sessions.deletion_watch import DeletionWatch
from weir_gateway.sessions.kv_release import KvRelease
from weir_gateway.sessions.live_homes import LiveHomes
from weir_gateway.sessions.session import (
    DEFAULT_IDLE_TTL_MS,
    LONGEST_ID,
    Session,
    check_idle_ttl_ms,
    conversation_session_id,
    new_session_id,
)
from weir_gateway.sessions.session_use import SessionUse
from weir_gateway.sessions.store import SessionStore
from weir_gateway.sessions.use_writer import UseWriter

_log = get_logger(__name__)

_AWAY_S = 5.0


class SessionDesk:
    """Makes, finds, uses and ends sessions; see `weir_gateway.intake.session_turn.Sessions`.

    Args:
        store, cache, watch, writer, release, homes: see there.
        on: whether there is a state database.
        secret: of the cluster, from which ids of conversations are made.
        clock: wall time.
    """

    def __init__(
        self,
        *,
        store: SessionStore,
        cache: SessionCache,
        watch: DeletionWatch,
        writer: UseWriter,
        release: KvRelease,
        homes: LiveHomes,
        on: bool,
        secret: bytes,
        clock: Clock,
    ) -> None:
        self._store = store
        self._cache = cache
        self._watch = watch
        self._writer = writer
        self._release = release
        self._homes = homes
        self._on = on
        self._secret = secret
        self._clock = clock
        # Until then no conversation waits for a database that has just failed to answer.
        self._away_until = float("-inf")

    async def create(
        self, caller: Caller, model: str, conversation_id: str, idle_ttl_ms: int | None
    ) -> Session:
        """A new session; with a label the one of that label, which is made if there is none.

        Args:
            caller: whose.
            model: its resolved name.
            conversation_id: label; empty for none.
            idle_ttl_ms: None for the tenant's default.

        Raises:
            WeirError: INVALID_FIELD, STORAGE_EXCEEDED, STATE_OFF or STATE_UNAVAILABLE.
        """
        check_conversation_id(conversation_id)
        ttl_ms = _default_ttl_ms(caller)
        if idle_ttl_ms is not None:
            ttl_ms = check_idle_ttl_ms("idle_ttl", idle_ttl_ms)
        if conversation_id:
            return await self._store.ensure(self._labelled(caller, model, conversation_id, ttl_ms))
        session = self._new(new_session_id(), caller, model, "", ttl_ms)
        await self._store.add(session)
        return session

    async def get(self, caller: Caller, session_id: str) -> Session:
        """A living session. Raises WeirError: SESSION_NOT_FOUND and kin."""
        _check_form(session_id)
        session = await self._store.find(caller.tenant_id, session_id)
        return self._living(session, session_id)

    async def page(
        self, caller: Caller, most: int, before: tuple[int, str] | None
    ) -> list[Session]:
        """Living sessions of the caller's tenant, the newest first; see `SessionStore.page`."""
        return await self._store.page(caller.tenant_id, self._clock.now_ms(), most, before)

    async def delete(self, caller: Caller, session_id: str) -> None:
        """Ends a session and has its KV released. Raises WeirError: SESSION_NOT_FOUND and kin."""
        _check_form(session_id)
        tenant = caller.tenant_id
        holders = await self._store.delete(tenant, session_id, self._clock.now_ms())
        self._cache.drop(tenant, session_id)
        if holders is None:
            raise _not_found()
        holders |= self._writer.forget(tenant, session_id)
        holders |= self._homes.of(tenant, session_id)
        await self._release.release_soon(tenant, session_id, holders)

    async def turn_of(
        self, caller: Caller, request: GenerationRequest, model: str
    ) -> SessionTurn | None:
        """See `Sessions`."""
        if request.session_id:
            session = await self._named(caller, request, model)
        elif request.conversation_id:
            ttl_ms = _default_ttl_ms(caller)
            session = self._labelled(caller, model, request.conversation_id, ttl_ms)
            if self._on:
                session = await self._kept(session)
        else:
            return None
        branches = request.sampling.n > 1 or request.sampling.prompt_logprobs is not None
        return SessionTurn(session.id, session.idle_ttl_ms, keeps=not branches)

    def turn_began(self, tenant_id: str, session_id: str) -> None:
        """A request of a session was accepted, which renews its life; a refused one does not."""
        self.turn_ended(tenant_id, session_id, None, {})

    def turn_ended(
        self, tenant_id: str, session_id: str, tokens: int | None, homes: dict[str, str]
    ) -> None:
        """A request of a session has ended; that it was used renews its life.

        Args:
            tenant_id, session_id: of which.
            tokens: prompt and answer, if it ended well.
            homes: the worker that ran it, with its address; empty for none.
        """
        if not self._on:
            return
        now_ms = self._clock.now_ms()
        self._cache.used(tenant_id, session_id, now_ms, tokens)
        use = SessionUse(tenant_id=tenant_id, session_id=session_id, last_use_ms=now_ms)
        use.tokens, use.homes = tokens, homes
        self._writer.note(use)

    async def _named(self, caller: Caller, request: GenerationRequest, model: str) -> Session:
        _check_form(request.session_id)
        if request.sampling.n > 1:
            field = request.names.of_sampling("n")
            raise InvalidField(field, request.sampling.n, "1 in a session")
        if request.sampling.prompt_logprobs is not None:
            field = request.names.of_sampling("prompt_logprobs")
            raise InvalidField(field, "set", "left out in a session")
        tenant, session_id = caller.tenant_id, request.session_id
        session = self._trusted(tenant, session_id)
        if session is None:
            session = await self._look_up(tenant, session_id)
        session = self._living(session, session_id)
        if request.conversation_id not in ("", session.conversation_id):
            raise InvalidField(
                "conversation_id",
                request.conversation_id,
                "left out, or the label of the session that session_id names",
            )
        if session.model != model:
            raise InvalidField(
                "session_id",
                f"of a session of model {session.model!r}",
                f"of one of model {model!r}, as that is asked for; each model needs its own",
            )
        return session

    async def _kept(self, session: Session) -> Session:
        """The session of a label, in the database if that answers: without it goes on too."""
        known = self._trusted(session.tenant_id, session.id)
        if known is None:
            if time.monotonic() < self._away_until:
                return session
            before = self._seen()
            try:
                known = await self._store.find(session.tenant_id, session.id)
            except WeirError as error:
                _log.warning("conversation_not_kept", reason=error.reason)
                self._away_until = time.monotonic() + _AWAY_S
                return session
            if known is None or not known.lives(self._clock.now_ms()):
                await self._writer.make(session)
                known = session
            self._remember(known, before)
        return known

    async def _look_up(self, tenant_id: str, session_id: str) -> Session | None:
        before = self._seen()
        session = await self._store.find(tenant_id, session_id)
        if session is not None:
            self._remember(session, before)
        return session

    def _trusted(self, tenant_id: str, session_id: str) -> Session | None:
        """The session as it was seen lately, if it cannot have ended since."""
        if self._seen() is None:
            return None
        session = self._cache.get(tenant_id, session_id)
        # Another gateway may have renewed one that seems to have ended.
        return session if session is not None and session.lives(self._clock.now_ms()) else None

    def _seen(self) -> int | None:
        self._watch.need()
        return self._watch.seen

    def _remember(self, session: Session, before: int | None) -> None:
        """Keeps what was read, unless a deletion was heard of meanwhile: it may be this one's."""
        if before is not None and before == self._watch.seen:
            self._cache.put(session)

    def _labelled(self, caller: Caller, model: str, label: str, ttl_ms: int) -> Session:
        session_id = conversation_session_id(self._secret, caller.tenant_id, model, label)
        return self._new(session_id, caller, model, label, ttl_ms)

    def _new(self, session_id: str, caller: Caller, model: str, label: str, ttl_ms: int) -> Session:
        now_ms = self._clock.now_ms()
        return Session(
            id=session_id,
            tenant_id=caller.tenant_id,
            model=model,
            conversation_id=label,
            created_ms=now_ms,
            last_use_ms=now_ms,
            idle_ttl_ms=ttl_ms,
        )

    def _living(self, session: Session | None, session_id: str) -> Session:
        if session is None:
            raise _not_found()
        if not session.lives(self._clock.now_ms()):
            self._cache.drop(session.tenant_id, session_id)
            raise _not_found(f"it ended after {session.idle_ttl_ms // 1_000} s without a request")
        return session


def _default_ttl_ms(caller: Caller) -> int:
    """The tenant's; where its workers keep nothing, a session lives all the same."""
    return caller.policy.kv.session_ttl_ms or DEFAULT_IDLE_TTL_MS


def _check_form(session_id: str) -> None:
    if not 1 <= len(session_id) <= LONGEST_ID:
        shown = session_id if not session_id else f"{len(session_id)} characters"
        raise InvalidField(
            "session_id", shown, f"the id of a session, 1 to {LONGEST_ID} characters"
        )
    if not is_caller_id(session_id):
        raise _not_found()


def _not_found(why: str = "it is none of yours, was deleted, or has ended") -> WeirError:
    return WeirError(
        Reason.SESSION_NOT_FOUND,
        f"there is no such session: {why}; make one with POST /v1/sessions or CreateSession and "
        "send the conversation's messages again, or send a conversation_id of your own instead",
        field="session_id",
    )
