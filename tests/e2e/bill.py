"""The rows of the ledger, as a test compares them with the account."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.e2e.deployment import Deployment
from tests.ratelimiter.exported import exported


@dataclass(frozen=True)
class Row:
    """One row; `kind` is `charge` or `adjust`, of which the numbers are signed differences."""

    kind: str
    reservation_id: str
    request_id: str
    tenant: str
    outcome: str
    exact: bool
    requests: int
    prompt: int
    cached: int
    completion: int
    nanos: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


async def bill(stack: Deployment) -> list[Row]:
    """Every row, in the order in which they were written."""
    async with stack.inside("ratelimiter") as channel:
        return [_row(shown) for shown in await exported(channel)]


def _row(shown: Mapping[str, Any]) -> Row:
    return Row(
        kind=shown["kind"],
        reservation_id=shown["reservation_id"],
        request_id=shown["request_id"],
        tenant=shown["tenant_id"],
        outcome=shown["outcome"],
        exact=shown["usage_quality"] == "exact",
        requests=shown["requests"],
        prompt=shown["prompt_tokens"],
        cached=shown["cached_prompt_tokens"],
        completion=shown["completion_tokens"],
        nanos=shown["amount_nanos"],
    )
