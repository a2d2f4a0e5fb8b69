"""`Embed` of `InferenceService` as an order, and its answer."""

from weir.common.v1.subject_pb2 import LatencySla, RequestClass
from weir.gateway.v1.inference_service_pb2 import Embedding, EmbedRequest, EmbedResponse
from weir_core.errors import InvalidField
from weir_gateway.embeddings.desk import Embedded
from weir_gateway.embeddings.order import EmbedOrder, check_input_count
from weir_gateway.intake.checks import check_token_count
from weir_gateway.native.conversion import known


def to_embed_order(message: EmbedRequest) -> EmbedOrder:
    """The order of a message. Raises WeirError."""
    check_input_count("inputs", len(message.inputs))
    inputs: list[str | tuple[int, ...]] = []
    names: list[str] = []
    for at, given in enumerate(message.inputs):
        kind = given.WhichOneof("input")
        if kind is None:
            raise InvalidField(f"inputs[{at}]", None, "one of text and token_input")
        if kind == "text":
            inputs.append(given.text)
            names.append(f"inputs[{at}].text")
            continue
        name = f"inputs[{at}].token_input.token_ids"
        check_token_count(name, given.token_input.token_ids)
        inputs.append(tuple(given.token_input.token_ids))
        names.append(name)
    return EmbedOrder(
        model=message.model,
        model_version=message.model_version,
        inputs=inputs,
        names=names,
        latency_sla=known(LatencySla, "latency_sla", message.latency_sla)
        or LatencySla.LATENCY_SLA_NORMAL,
        priority=message.priority,
        request_class=known(RequestClass, "class", getattr(message, "class")),
    )


def embed_response(made: Embedded) -> EmbedResponse:
    """The answer of a call that was made."""
    assert made.last is not None
    live = made.last.live
    return EmbedResponse(
        model=live.prepared.subject.model,
        model_version=live.model_version,
        embeddings=[Embedding(values=vector) for vector in made.vectors],
        usage=made.usage,
    )
