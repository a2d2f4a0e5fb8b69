"""A tenant's KV quota, which no reservation holds: gateways refuse what it can never fit."""

from weir_core.errors import LimitExceeded, Reason, Violation
from weir_core.kv_quota import kv_tokens


def check_kv_quota(tenant_id: str, quota: int, *, prompt_tokens: int, max_new_tokens: int) -> None:
    """Refuse a request as its gateway does before it reserves.

    Args:
        tenant_id: whose quota.
        quota: `kv.max_tokens` of its policy, tokens; 0: no bound.
        prompt_tokens, max_new_tokens: of the request.

    Raises:
        LimitExceeded: REQUEST_TOO_LARGE; the request never fits.
    """
    needed = kv_tokens(prompt_tokens, max_new_tokens)
    if not quota or needed <= quota:
        return
    knob = f"`kv.max_tokens` of the policy of tenant {tenant_id}"
    violation = Violation(
        limit_id=f"tenant:{tenant_id}/kv.max_tokens",
        limit_type="context",
        resource="kv_tokens",
        layer="tenant",
        limit=quota,
        used=0,
        requested=needed,
        reset_time_ms=0,
        knob=knob,
    )
    raise LimitExceeded(
        Reason.REQUEST_TOO_LARGE,
        f"the request needs KV cache for {needed} tokens; the quota is {quota} at once; "
        f"to change: {knob}",
        [violation],
        retry_after_s=None,
    )
