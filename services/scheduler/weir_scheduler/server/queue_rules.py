"""How a pool of the directory queues, in the terms of the scheduler."""

from weir.directory.v1 import directory_pb2 as directory
from weir_scheduler.rules.ordering_parameters import OrderingParameters
from weir_scheduler.rules.queue_rules import FairQueue, QueueRules

_FAIR_QUEUES = {directory.FAIR_QUEUE_LOCALITY: FairQueue.LOCALITY}
_DEFAULTS = QueueRules()


def queue_rules(pool: directory.Pool) -> QueueRules:
    """Turns between tenants and parameters of the policy."""
    return QueueRules(
        fair_queue=_FAIR_QUEUES.get(pool.fair_queue, FairQueue.TOKENS),
        quantum_tokens=pool.quantum_tokens or _DEFAULTS.quantum_tokens,
        ordering=_ordering(pool.policy_parameters),
    )


def _ordering(parameters: directory.PolicyParameters) -> OrderingParameters:
    def given(name: str) -> int | None:
        return getattr(parameters, name) if parameters.HasField(name) else None  # type: ignore[arg-type]

    after_ms = given("promote_after_ms")
    return OrderingParameters(
        promote_after_us=None if after_ms is None else after_ms * 1_000,
        promote_every=given("promote_every"),
        max_overtaken=given("max_overtaken"),
        aging_us_per_token=given("aging_us_per_token"),
    )
