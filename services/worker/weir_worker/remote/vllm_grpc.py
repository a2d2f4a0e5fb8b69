"""vLLM's gRPC server (`vllm serve --grpc`), by the contract in the wheel `smg-grpc-proto`.

It takes and gives token ids; text and stop strings are made of them here, as for an own engine.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc

from weir_core.errors import Reason, WeirError
from weir_core.rpc.channel import open_channel
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import FinishReason, Usage
from weir_worker.remote.answers import finish_of, model_not_there, refuse_grammar, refuse_unless
from weir_worker.remote.options import RemoteOptions
from weir_worker.remote.upstream import Piece
from weir_worker.text import DetokenizerFactory, OutputText

try:
    from smg_grpc_proto import vllm_engine_pb2 as pb
    from smg_grpc_proto import vllm_engine_pb2_grpc as rpc
except ImportError as missing:  # an extra, so that most installations go without
    raise WeirError(
        Reason.ENGINE_FAILED,
        "upstream_url is grpc://, which needs the package smg-grpc-proto: "
        "pip install 'tokenweir[vllm]'",
    ) from missing

_CHECK_S = 5.0
_BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED,)


class VllmUpstream:
    """See `Upstream`.

    Args:
        options: where it is; `model` may be its path or its served name.
        detokenizers: makes text of its token ids.
    """

    def __init__(self, options: RemoteOptions, detokenizers: DetokenizerFactory) -> None:
        self._options = options
        self._detokenizers = detokenizers
        target = options.url.removeprefix("grpc://").rstrip("/")
        self._channel = open_channel(target, name="upstream", token=options.api_key)
        self._stub: Any = rpc.VllmEngineStub(self._channel)

    async def close(self) -> None:
        """See `Upstream`."""
        await self._channel.close()

    async def check(self) -> None:
        """See `Upstream`."""
        try:
            health = await self._stub.HealthCheck(pb.HealthCheckRequest(), timeout=_CHECK_S)
            info = await self._stub.GetModelInfo(pb.GetModelInfoRequest(), timeout=_CHECK_S)
        except grpc.aio.AioRpcError as error:
            raise WeirError(
                Reason.NO_WORKER,
                f"the upstream engine does not answer ({error.code().name}): see upstream_url",
            ) from None
        if not health.healthy:
            raise WeirError(Reason.ENGINE_FAILED, "the upstream engine says that it is not healthy")
        names = [name for name in (info.served_model_name, info.model_path) if name]
        if self._options.model not in names:
            raise model_not_there(self._options.model, names)

    async def complete(self, submit: Submit) -> AsyncGenerator[Piece]:
        """See `Upstream`."""
        text = OutputText(self._detokenizers.open(submit.prompt_token_ids), submit.stop)
        call = self._stub.Generate(_request(submit), timeout=None)
        told = 0
        try:
            while (answer := await self._next(call)) is not None:
                if answer.WhichOneof("response") == "complete":
                    yield _last(answer.complete, told, text)
                    return
                token_ids = list(answer.chunk.token_ids)
                told += len(token_ids)
                yield Piece(token_ids, "".join(text.push(token)[0] for token in token_ids))
        finally:
            call.cancel()

    async def _next(self, call: Any) -> Any:
        """The next answer; None at the end."""
        try:
            async with asyncio.timeout(self._options.silence_s):
                answer = await call.read()
        except TimeoutError:
            raise WeirError(Reason.WORKER_LOST, "the upstream engine fell silent") from None
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        return None if answer is grpc.aio.EOF else answer

    def _failed(self, error: grpc.aio.AioRpcError) -> WeirError:
        code = error.code()
        if code in _BUSY or (code is grpc.StatusCode.UNAVAILABLE and self._connected()):
            return WeirError(Reason.QUEUE_FULL, "the upstream engine is busy")
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            return WeirError(Reason.ENGINE_FAILED, "the upstream engine refuses the request")
        return WeirError(Reason.WORKER_LOST, f"the upstream engine: {code.name}")

    def _connected(self) -> bool:
        """vLLM's servicer says UNAVAILABLE for HTTP's 503; so does gRPC of a lost connection."""
        return self._channel.get_state() is grpc.ChannelConnectivity.READY


def _request(submit: Submit) -> Any:
    for name in ("logprobs", "prompt_logprobs"):
        refuse_unless(name, getattr(submit.sampling, name) is None)
    refuse_grammar(submit.grammar)
    return pb.GenerateRequest(
        request_id=f"{submit.request_id}.{submit.attempt}",
        tokenized=pb.TokenizedInput(input_ids=submit.prompt_token_ids),
        sampling_params=_sampling(submit),
        stream=True,
    )


def _sampling(submit: Submit) -> Any:
    sampling = submit.sampling
    params = pb.SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=max(0, sampling.top_k),
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        min_tokens=sampling.min_tokens,
        logit_bias=sampling.logit_bias,
        max_tokens=submit.max_new_tokens,
        stop=submit.stop,
        stop_token_ids=submit.stop_token_ids,
        ignore_eos=submit.ignore_eos,
        n=1,
    )
    if sampling.seed is not None:
        params.seed = sampling.seed & 0x7FFF_FFFF
    return params


def _last(complete: Any, told: int, text: OutputText) -> Piece:
    """The end, with what no chunk has told yet.

    In a stream vLLM's servicer tells of the last tokens alone here, which a chunk has told
    before, and counts those: what the chunks told is the count.
    """
    token_ids = list(complete.output_ids)[told:]
    shown = "".join(text.push(token)[0] for token in token_ids)
    finish = finish_of(complete.finish_reason) or FinishReason.STOP
    if finish is FinishReason.LENGTH or not complete.HasField("matched_stop_str"):
        shown += text.flush()
    completion = max(complete.completion_tokens, told + len(token_ids))
    usage = Usage(complete.prompt_tokens, complete.cached_tokens, completion)
    return Piece(token_ids, shown, finish, usage)
