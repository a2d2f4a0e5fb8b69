"""Whose fault the failure of an attempt was."""

from weir_core.errors.reasons import Reason

_OF_WORKER = frozenset({Reason.WORKER_LOST, Reason.ENGINE_FAILED, Reason.INTERNAL})


def is_worker_fault(reason: Reason) -> bool:
    """Whether a failure tells something about the worker: a fault of transport or engine.

    A refusal does not, be it for what the request asks (400s) or for want of room (429s): a
    breaker that counted them would let a few bad requests close a fleet.
    """
    return reason in _OF_WORKER
