"""What a request may do with the KV caches of workers, and by which names they know its prefix."""

from weir.directory.v1.directory_pb2 import KvPolicy as TenantKvPolicy
from weir.worker.v1.worker_service_pb2 import KvPolicy
from weir_core.errors import Reason, WeirError
from weir_core.kv_quota import kv_tokens
from weir_core.prefix_hash import (
    PREFIX_GRANULARITY,
    PrefixChain,
    PrefixNamespace,
    session_scope,
)
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.intake.session_turn import SessionTurn

DEFAULT_SESSION_TTL_MS = 15 * 60 * 1000
MOST_HASHES = 512
"""16 KiB of a request's frame: the first 32,768 tokens of its prompt; a millisecond."""


def kv_policy_of(policy: TenantKvPolicy, turn: SessionTurn | None = None) -> KvPolicy:
    """The tenant's part of the cache as a worker is told it; of a session's turn, for as long as
    the session may be idle, unless the policy says less."""
    chosen = policy.HasField("session_ttl_ms")
    ttl_ms = policy.session_ttl_ms if chosen else DEFAULT_SESSION_TTL_MS
    if turn is not None:
        ttl_ms = min(ttl_ms, turn.ttl_ms) if chosen else turn.ttl_ms
    return KvPolicy(
        max_tokens=policy.max_tokens,
        weight=policy.weight or 1,
        share_private=policy.share_private,
        session_ttl_ms=ttl_ms,
    )


def check_kv_quota(
    policy: TenantKvPolicy, prompt_tokens: int, max_new_tokens: int, field: str
) -> None:
    """Refuses what the tenant's quota can never hold, before it is reserved.

    Raises:
        WeirError: REQUEST_TOO_LARGE, with the numbers.
    """
    needed = kv_tokens(prompt_tokens, max_new_tokens)
    if not policy.max_tokens or needed <= policy.max_tokens:
        return
    raise WeirError(
        Reason.REQUEST_TOO_LARGE,
        f"the prompt has {prompt_tokens} tokens and {field} is {max_new_tokens}, which need KV "
        f"cache for {needed} tokens; your quota is {policy.max_tokens} at once: shorten the "
        f"prompt, lower {field}, or have kv.max_tokens of your policy raised",
        field=field,
        metadata={"needed_tokens": str(needed), "kv_quota_tokens": str(policy.max_tokens)},
    )


def placement_hashes(prepared: PreparedRequest) -> list[bytes]:
    """Names of the prompt's prefixes that other requests, or turns of the session, may share."""
    if prepared.embed_lengths:
        return []
    subject, session_id = prepared.subject, prepared.kept_session_id
    of_model = subject.model, prepared.fingerprint
    tenant = PrefixNamespace(subject.tenant_id, *of_model)
    scope = session_scope(session_id) if session_id else "request"
    private = PrefixNamespace(subject.tenant_id, *of_model, scope)
    shares_all = prepared.caller.policy.kv.share_private
    chain = PrefixChain(
        prepared.prompt.token_ids,
        PREFIX_GRANULARITY,
        tenant,
        None if shares_all else private,
        prepared.prompt.shared_tokens,
    )
    whole = prepared.prompt_tokens // PREFIX_GRANULARITY
    shared = whole if shares_all or session_id else chain.shared
    return [chain.hash_at(index) for index in range(min(shared, MOST_HASHES))]
