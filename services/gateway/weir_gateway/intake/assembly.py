"""Puts together what was resolved of a request."""

from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import (
    DELIVERY_MODE_NON_STREAM,
    DELIVERY_MODE_STREAM,
    REQUEST_CLASS_INTERACTIVE,
    Subject,
)
from weir.directory.v1.directory_pb2 import Model, ModelVersion
from weir_core.directory import Parameters
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.intake.session_turn import SessionTurn
from weir_gateway.text.model_text import ModelText, Prompt
from weir_gateway.tools.call_format import CallFormat


def assembled(
    caller: Caller,
    request: GenerationRequest,
    model: Model,
    version: ModelVersion,
    parameters: Parameters,
    text: ModelText,
    prompt: Prompt,
    max_new_tokens: int,
    *,
    call_format: CallFormat | None,
    session: SessionTurn | None,
    fallback_versions: tuple[str, ...],
) -> PreparedRequest:
    """What was resolved, put together."""
    return PreparedRequest(
        caller=caller,
        subject=Subject(
            tenant_id=caller.tenant_id,
            user_id=caller.user_id,
            api_key_id=caller.key_id,
            model=model.name,
            model_version=version.version,
            plan_id=caller.plan_id,
        ),
        prompt=prompt,
        max_new_tokens=max_new_tokens,
        max_context_tokens=model.max_context_tokens,
        sampling=_sampling(request, parameters),
        parameters=parameters,
        mode=DELIVERY_MODE_STREAM if request.stream else DELIVERY_MODE_NON_STREAM,
        request_class=request.request_class or REQUEST_CLASS_INTERACTIVE,
        latency_sla=request.latency_sla,
        priority=min(request.priority, caller.policy.max_priority),
        operation=request.operation,
        fingerprint=text.fingerprint,
        token_bytes=text.token_bytes,
        choices=request.sampling.n,
        output_format=request.output_format,
        echo=_echo(request, text, prompt),
        conversation_id=request.conversation_id,
        embed_lengths=request.embed_lengths,
        tool_use=request.tool_use,
        call_format=call_format,
        session=session,
        avoided_workers=request.avoided_workers,
        fallback_versions=fallback_versions,
    )


def _echo(request: GenerationRequest, text: ModelText, prompt: Prompt) -> str:
    if not request.echo:
        return ""
    return request.prompt or text.decode(prompt.token_ids)


def _sampling(request: GenerationRequest, parameters: Parameters) -> SamplingParams:
    asked = request.sampling
    sampling = SamplingParams(
        temperature=parameters.temperature if asked.temperature is None else asked.temperature,
        top_p=parameters.top_p if asked.top_p is None else asked.top_p,
        top_k=parameters.top_k if asked.top_k is None else asked.top_k,
        seed=asked.seed,
        stop=asked.stop,
        stop_token_ids=asked.stop_token_ids,
        ignore_eos=asked.ignore_eos,
        min_p=asked.min_p,
        repetition_penalty=asked.repetition_penalty,
        presence_penalty=asked.presence_penalty,
        frequency_penalty=asked.frequency_penalty,
        min_tokens=asked.min_tokens,
        logprobs=asked.logprobs,
        prompt_logprobs=asked.prompt_logprobs,
        n=asked.n if asked.n > 1 else 0,
    )
    if asked.logit_bias:
        sampling.logit_bias.update(asked.logit_bias)
    return sampling
