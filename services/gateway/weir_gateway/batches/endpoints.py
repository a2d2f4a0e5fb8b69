"""Endpoints that batches may name, and the kinds of jobs that their lines are."""

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.batches import response_kind
from weir_gateway.jobs.kind import JobKind, JobKinds

_KINDS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completion",
    "/v1/responses": response_kind.KIND,
}
_EMBEDDINGS = "/v1/embeddings"


def check_endpoint(endpoint: object, kinds: JobKinds) -> str:
    """An endpoint that a batch may name.

    Raises:
        WeirError: INVALID_FIELD, EMBEDDINGS_NOT_OFFERED, or NOT_BUILT_YET.
    """
    if endpoint == _EMBEDDINGS:
        raise WeirError(
            Reason.EMBEDDINGS_NOT_OFFERED,
            f"endpoint is {_EMBEDDINGS}, of which there are no batches: send its requests "
            f"themselves; batches take {', '.join(_KINDS)}",
            field="endpoint",
        )
    if not isinstance(endpoint, str) or endpoint not in _KINDS:
        raise InvalidField("endpoint", endpoint, f"one of {', '.join(_KINDS)}")
    kinds.of(_KINDS[endpoint])
    return endpoint


def kind_name(endpoint: str) -> str:
    """The kind of the jobs that lines of an endpoint are."""
    return _KINDS[endpoint]


def kind_of(endpoint: str, kinds: JobKinds) -> JobKind:
    """How their bodies are read. Raises WeirError(NOT_BUILT_YET)."""
    return kinds.of(_KINDS[endpoint])
