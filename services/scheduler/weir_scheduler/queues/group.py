"""Which of a lane's turns a request takes part in."""

from typing import NamedTuple

from weir_scheduler.queues.entry import QueueEntry, RequestClass


class Group(NamedTuple):
    """Requests of one class and length.

    Attributes:
        request_class: interactive or batch.
        long: whether the prompt is above `long_context_threshold`.
    """

    request_class: RequestClass
    long: bool


GROUPS = tuple(
    Group(request_class, long) for request_class in RequestClass for long in (False, True)
)
"""All of them."""


def group_of(entry: QueueEntry) -> Group:
    """The group of a request."""
    return Group(entry.request_class, entry.long)
