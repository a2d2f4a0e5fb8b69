"""Every shipped plan while its store is away: concurrency and tokens per minute still bind."""

from pathlib import Path

import pytest

from tests.ratelimiter.degraded.site import Replica, replica, site
from weir_core.errors import LimitExceeded, Reason
from weir_gateway.directory.file import parse_document, shipped_plans
from weir_gateway.directory.snapshot_builder import build_snapshot

CONCURRENCY, TPM = "tenant:acme/concurrency", "tenant:acme/tpm"


async def refused_at(account: Replica, tokens: int, *, settles: bool) -> tuple[Reason, int]:
    """Requests of `tokens` until one is refused: why, and how many were admitted."""
    for number in range(10_000):
        try:
            admission = await account.reserve(f"{settles}{number}", prompt=1, output=tokens - 1)
        except LimitExceeded as refused:
            return refused.reason, number
        if settles:
            await account.settle(admission.record, 1, tokens - 1)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("live", [1, 3])
@pytest.mark.parametrize("plan", sorted(shipped_plans()))
async def test_a_plan_binds_on_its_share(tmp_path: Path, plan: str, live: int) -> None:
    text = (
        f"tenants: [{{id: acme, plan: {plan}, users: [{{id: bob}}]}}]\n"
        "models: [{name: m, max_context: 1000k, versions: [{version: '1', folder: /m}]}]\n"
    )
    snapshot = build_snapshot(parse_document(text, "directory.yaml"), 1)
    async with (
        site(tmp_path, snapshot, live=live) as shared,
        replica(shared, budget_credit=100.0) as account,
    ):
        before = (await account.reserve("before", prompt=1, output=1)).record
        await account.settle(before, 1, 1)
        limits = account.limits_of(account.limiter.read(before).subject)
        shared.outage.refuses = True
        share = limits[TPM].capacity // live
        tokens = share // 5
        reason, admitted = await refused_at(account, tokens, settles=True)
        assert reason is Reason.TOKEN_LIMIT_EXCEEDED
        assert admitted * tokens <= share
        shared.advance(600_000)
        reason, admitted = await refused_at(account, 2, settles=False)
        assert reason is Reason.CONCURRENCY_LIMIT_EXCEEDED
        assert admitted == max(1, limits[CONCURRENCY].capacity // live)
