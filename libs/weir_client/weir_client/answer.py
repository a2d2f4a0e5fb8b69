"""A whole answer."""

from dataclasses import dataclass

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.usage_pb2 import Usage
from weir_client.choice import Choice


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request came to.

    Attributes:
        text: the whole text, of the first answer if there are several.
        finish_reason: `stop` or `length`; `abort` when it was ended early by the server.
        usage: tokens, as charged.
        request_id: id of the request.
        model: name of the model that answered, after alias and canary.
        lifecycle: the terminal record.
        degradations: what was changed instead of refusing; empty if nothing.
        replayed: whether it is the kept answer of an earlier request with this idempotency key.
        choices: every answer, in order; one unless `n` asked for more.
    """

    text: str
    finish_reason: str
    usage: Usage
    request_id: str
    model: str
    lifecycle: LifecycleRecord
    degradations: tuple[str, ...]
    replayed: bool
    choices: tuple[Choice, ...]
