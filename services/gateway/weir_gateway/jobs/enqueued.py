"""How many tokens of offline work may wait."""

from weir.directory.v1.directory_pb2 import BatchPolicy

_DEFAULT = 200_000_000


def most_enqueued(policy: BatchPolicy) -> int:
    """Tokens that a tenant's jobs and lines of one model may count as together."""
    if policy.HasField("max_enqueued_tokens"):
        return policy.max_enqueued_tokens
    return _DEFAULT
