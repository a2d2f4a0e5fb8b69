"""Why a request waits, and how it stops waiting."""

from enum import StrEnum


class WaitReason(StrEnum):
    """The one thing that keeps a request in the queue right now."""

    WORKER_FULL = "worker_full"
    BATCH_FULL = "batch_full"
    KV_FULL = "kv_full"
    TENANT_CAP = "tenant_cap"
    BEHIND_OTHERS = "behind_others"
    NO_WORKER = "no_worker"
    BATCH_WINDOW = "batch_window"
    LONG_CAP = "long_cap"
    CLASS_SHARE = "class_share"
    LENGTH_SHARE = "length_share"
    WORKERS_TRIED = "workers_tried"
    SESSION_WAIT = "session_wait"
    PREEMPTED = "preempted"
    PREEMPTING = "preempting"


class QueueExit(StrEnum):
    """How one wait ended; every wait ends in exactly one of these."""

    DISPATCHED = "dispatched"
    WITHDRAWN = "withdrawn"
    REJECTED = "rejected"
    GATEWAY_LOST = "gateway_lost"
