"""The OpenAI-compatible completions API of another engine: vLLM, SGLang, TGI, llama.cpp.

Prompts go out as token ids where the engine takes them, so that it computes exactly what was
counted here. Docs: https://platform.openai.com/docs/api-reference/completions; what engines add
and lack is their `Dialect`.
"""

import hmac
import secrets
from collections.abc import AsyncGenerator

import httpx2
import msgspec

from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import FinishReason, Usage
from weir_worker.engine.unit_vector import unit_vector
from weir_worker.remote.answers import finish_of, model_not_there
from weir_worker.remote.completion_body import Untokenise, completion_body
from weir_worker.remote.dialect import DIALECTS
from weir_worker.remote.options import RemoteOptions
from weir_worker.remote.upstream import Piece

_CONNECT_S = 5.0
_LONGEST_LINE = 4 * 1024 * 1024
_LONGEST_REFUSAL = 64 * 1024
_BUSY = frozenset({408, 429, 503, 529})


class PromptDetails(msgspec.Struct, frozen=True):
    """Part of a usage."""

    cached_tokens: int | None = None


class ReportedUsage(msgspec.Struct, frozen=True):
    """What the upstream counted, tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: PromptDetails | None = None


class Choice(msgspec.Struct, frozen=True):
    """One piece of an answer."""

    text: str = ""
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class EmbeddedInput(msgspec.Struct, frozen=True):
    """One input's embedding."""

    embedding: list[float]


class EmbeddingAnswer(msgspec.Struct, frozen=True):
    """An answer of the embeddings API."""

    data: list[EmbeddedInput]
    usage: ReportedUsage | None = None


class Chunk(msgspec.Struct, frozen=True):
    """One event of the stream; the last one has no choice and the usage."""

    choices: list[Choice] = []
    usage: ReportedUsage | None = None


class OpenAiUpstream:
    """See `Upstream`.

    Args:
        options: where it is.
        untokenise: token ids to text, for engines that take prompts as text.
    """

    def __init__(self, options: RemoteOptions, untokenise: Untokenise) -> None:
        self._options = options
        self._dialect = DIALECTS[options.dialect]
        self._untokenise = untokenise
        self._salt = secrets.token_bytes(32)
        key = options.api_key
        self._client = httpx2.AsyncClient(
            base_url=options.url.rstrip("/") + "/",
            headers={} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"},
            timeout=httpx2.Timeout(options.silence_s, connect=_CONNECT_S),
            limits=httpx2.Limits(max_connections=options.max_running + 1),
        )
        self._decoder = msgspec.json.Decoder(Chunk)

    async def close(self) -> None:
        """See `Upstream`."""
        await self._client.aclose()

    async def check(self) -> None:
        """See `Upstream`."""
        try:
            response = await self._client.get("models", timeout=_CONNECT_S)
        except httpx2.HTTPError as error:
            raise _unreachable(error) from None
        if response.status_code != httpx2.codes.OK:
            raise _refused(response.status_code, response.text)
        names = _model_names(response)
        if self._options.model not in names:
            raise model_not_there(self._options.model, names)

    async def complete(self, submit: Submit) -> AsyncGenerator[Piece]:
        """See `Upstream`."""
        if submit.embed:
            yield await self._embed(submit)
            return
        body = completion_body(submit, self._options.model, self._dialect, self._untokenise)
        if self._dialect.cache_salt:
            body["cache_salt"] = self._salt_of(submit.tenant)
        try:
            async with self._client.stream("POST", "completions", json=body) as response:
                if response.status_code != httpx2.codes.OK:
                    raise _refused(response.status_code, await _beginning(response))
                async for line in _lines(response):
                    data = line.removeprefix("data:").strip()
                    if data == "[DONE]":
                        return
                    if line.startswith("data:"):
                        yield _piece(self._decode(data))
        except httpx2.HTTPError as error:
            raise WeirError(Reason.WORKER_LOST, f"the upstream engine: {_what(error)}") from None

    async def _embed(self, submit: Submit) -> Piece:
        ids = submit.prompt_token_ids
        given = ids if self._dialect.token_prompts else self._untokenise(ids)
        body = {"model": self._options.model, "input": given, "encoding_format": "float"}
        try:
            async with self._client.stream("POST", "embeddings", json=body) as response:
                if response.status_code != httpx2.codes.OK:
                    raise _refused(response.status_code, await _beginning(response))
                return _embedding(await _whole(response))
        except httpx2.HTTPError as error:
            raise WeirError(Reason.WORKER_LOST, f"the upstream engine: {_what(error)}") from None

    def _salt_of(self, tenant: str) -> str:
        """Of a tenant's KV in the engine: no other's request hits it, nor can guess it."""
        return hmac.digest(self._salt, tenant.encode(), "sha256").hex()

    def _decode(self, data: str) -> Chunk:
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError:
            raise WeirError(
                Reason.ENGINE_FAILED,
                "the upstream engine sent an event that is no chunk of the completions API",
            ) from None


async def _beginning(response: httpx2.Response) -> str:
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) >= _LONGEST_REFUSAL:
            break
    return body.decode(errors="replace")


async def _whole(response: httpx2.Response) -> bytes:
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _LONGEST_LINE:
            raise WeirError(Reason.ENGINE_FAILED, "the upstream engine sent an endless answer")
    return body


def _embedding(body: bytes) -> Piece:
    try:
        answer = msgspec.json.decode(body, type=EmbeddingAnswer)
        (only,) = answer.data
        embedding = unit_vector(only.embedding)
    except (msgspec.MsgspecError, ValueError, ArithmeticError):
        raise WeirError(
            Reason.ENGINE_FAILED,
            "the upstream engine sent what is no answer of the embeddings API",
        ) from None
    return Piece([], "", FinishReason.STOP, _usage(answer.usage), embedding)


async def _lines(response: httpx2.Response) -> AsyncGenerator[str]:
    """Like `aiter_lines`, but holds no more than one line of bounded length."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise WeirError(Reason.ENGINE_FAILED, "the upstream engine sent an endless line")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
    yield rest.decode(errors="replace")


def _piece(chunk: Chunk) -> Piece:
    # One choice is asked for; the last chunk has none.
    choice = chunk.choices[0] if chunk.choices else Choice(token_ids=[])
    return Piece(
        choice.token_ids, choice.text, finish_of(choice.finish_reason), _usage(chunk.usage)
    )


def _usage(reported: ReportedUsage | None) -> Usage | None:
    if reported is None:
        return None
    details = reported.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or 0
    prompt = reported.prompt_tokens
    return Usage(prompt, min(prompt, cached), reported.completion_tokens)


def _model_names(response: httpx2.Response) -> list[str]:
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError):
        raise WeirError(
            Reason.ENGINE_FAILED,
            "the upstream engine's list of models is not that of an OpenAI API; "
            "upstream_url must end in /v1",
        ) from None


def _unreachable(error: httpx2.HTTPError) -> WeirError:
    return WeirError(
        Reason.NO_WORKER, f"the upstream engine does not answer ({_what(error)}): see upstream_url"
    )


def _refused(status: int, text: str) -> WeirError:
    if status in _BUSY:
        return WeirError(Reason.QUEUE_FULL, f"the upstream engine is busy (HTTP {status})")
    if status in (401, 403):
        return WeirError(
            Reason.ENGINE_FAILED,
            f"the upstream engine refuses this worker's key (HTTP {status}): see upstream_api_key",
        )
    if status == httpx2.codes.BAD_REQUEST and "context" in text.lower():
        return WeirError(
            Reason.CONTEXT_LENGTH_EXCEEDED,
            "the upstream engine's context is shorter than this worker's max_context",
        )
    return WeirError(Reason.ENGINE_FAILED, f"the upstream engine answered HTTP {status}")


def _what(error: httpx2.HTTPError) -> str:
    return type(error).__name__
