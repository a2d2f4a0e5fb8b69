"""What arrives: requests of tenants over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import TenantRules

MODEL = "sim"
"""Model of requests and workers that name none."""


@dataclass(frozen=True, slots=True)
class SimRequest:
    """One request, with what only an oracle knows: how long its answer becomes.

    Attributes:
        request_id: unique in its workload.
        arrival_s: seconds since the begin of the run.
        tenant_id: who is charged.
        prompt_tokens: 1 or more.
        output_tokens: tokens that it will produce if nothing ends it, 1 or more.
        max_new_tokens: bound that the client asks for; 0 for `output_tokens`.
        model: public name.
        request_class: interactive or batch.
        priority: 0 to 100, higher is more urgent.
        session_id: empty for none.
        prefix_hashes: chained hashes of the prompt, `Workload.prefix_granularity` tokens each.
        predicted_output: expected answer, tokens; None leaves it to the scheduler's predictor.
    """

    request_id: str
    arrival_s: float
    tenant_id: str
    prompt_tokens: int
    output_tokens: int
    max_new_tokens: int = 0
    model: str = MODEL
    request_class: RequestClass = RequestClass.INTERACTIVE
    priority: int = 0
    session_id: str = ""
    prefix_hashes: tuple[bytes, ...] = ()
    predicted_output: int | None = None

    @property
    def most_new_tokens(self) -> int:
        """The bound that the scheduler is told, tokens."""
        return self.max_new_tokens or self.output_tokens


@dataclass(frozen=True)
class Workload:
    """Requests by time of arrival, and the policies of their tenants.

    Attributes:
        name: for reports.
        requests: in order of `arrival_s`; ids are unique.
        tenants: weights and caps; a tenant that is missing has `Setup.tenant`.
        prefix_granularity: tokens that one prefix hash stands for.
    """

    name: str
    requests: tuple[SimRequest, ...]
    tenants: Mapping[str, TenantRules] = field(default_factory=dict)
    prefix_granularity: int = PREFIX_GRANULARITY
