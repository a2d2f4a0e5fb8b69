"""Bounds of degradation as messages of the directory."""

from weir.directory.v1.directory_pb2 import DegradationPolicy, Truncation
from weir_gateway.directory.degradation_entry import DegradationEntry


def to_degradation_policy(entry: DegradationEntry) -> DegradationPolicy | None:
    """None when nothing is set: then all of it is the plan's."""
    if entry == DegradationEntry():
        return None
    policy = DegradationPolicy(min_new_tokens=entry.min_new_tokens, max_wait_ms=entry.max_wait_ms)
    if entry.truncate is not None:
        policy.truncate = Truncation.Value(f"TRUNCATION_{entry.truncate.upper()}")
    return policy
