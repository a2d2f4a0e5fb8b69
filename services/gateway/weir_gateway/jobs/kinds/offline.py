"""What a request must leave out to be a job."""

from dataclasses import replace

from weir.common.v1.subject_pb2 import RequestClass
from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.intake.generation_request import GenerationRequest


def offline(request: GenerationRequest) -> GenerationRequest:
    """The request of a job: of class batch, its answer kept whole.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD: it asks to be streamed, or for a session.
    """
    if request.stream:
        raise InvalidField("stream", True, "false, or left out: the answer of a job is kept whole")
    if request.session_id:
        raise WeirError(
            Reason.UNSUPPORTED_FIELD,
            "session_id is set, but a job has no session; send the whole conversation",
            field="session_id",
        )
    return replace(request, request_class=RequestClass.REQUEST_CLASS_BATCH)
