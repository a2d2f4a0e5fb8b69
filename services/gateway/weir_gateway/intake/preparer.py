"""From a request as it came to one that can be reserved and run."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from weir.directory.v1.directory_pb2 import VERSION_FALLBACK_NONE, Model, ModelVersion
from weir_core.directory import DirectoryIndex, Parameters
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.errors.refusal import over_context
from weir_gateway.caller.caller import Caller
from weir_gateway.directory.follower import Directory
from weir_gateway.intake.assembly import assembled
from weir_gateway.intake.bound_calls import with_bound_calls
from weir_gateway.intake.checks import (
    check_max_new_tokens,
    check_min_tokens,
    check_request,
    check_told_prompt,
    check_vocabulary,
)
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.headroom import default_max_new_tokens
from weir_gateway.intake.kv_use import check_kv_quota
from weir_gateway.intake.named_prefix import Prefixes
from weir_gateway.intake.prefix_form import normalised
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.intake.routing import resolve_model, resolve_versions
from weir_gateway.intake.session_turn import Sessions, SessionTurn
from weir_gateway.intake.shape import Shape
from weir_gateway.intake.version_choice import sticky_key
from weir_gateway.text.model_text import ModelText, Prompt
from weir_gateway.text.model_texts import ModelTexts
from weir_gateway.tools.call_format import CallFormat, enforced

# Tokenising takes some 1 us a character: more than this would hold up every stream.
_MAX_ON_LOOP = 8_000
_THREADS = 2


class Preparer:
    """Checks, resolves, renders and tokenises.

    Args:
        directory, texts: see there.
        sessions, prefixes: of tenants.
    """

    def __init__(
        self, directory: Directory, texts: ModelTexts, sessions: Sessions, prefixes: Prefixes
    ) -> None:
        self._directory = directory
        self._texts = texts
        self._sessions = sessions
        self._prefixes = prefixes
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tokenize")

    def close(self) -> None:
        """Ends the threads; what they do at the moment is finished first."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, caller: Caller, request: GenerationRequest) -> PreparedRequest:
        """A request ready for `Reserve`.

        Raises:
            WeirError: INVALID_FIELD, MODEL_NOT_FOUND, TEMPLATE_FAILED,
                CONTEXT_LENGTH_EXCEEDED and kin; it names field, value and bound.
        """
        index = self._directory.required
        check_request(request)
        request = await self._with_prefix(caller, request)
        model = resolve_model(index, caller, request.model)
        turn = await self._sessions.turn_of(caller, request, model.name)
        version, *others = _versions(model, caller, request, turn)
        parameters = index.parameters(model.name, caller.tenant_id)
        wanted = _wanted_tokens(request, caller, parameters)
        text = self._texts.get(model.name, version.folder)
        check_vocabulary(request, text.vocab_size)
        call_format = _call_format(request, text)
        if request.tool_use is not None and request.tool_use.call_schema:
            request = with_bound_calls(request, request.tool_use, text.call_format)
        prompt = await self._prompt(text, caller.tenant_id, request, model.max_context_tokens)
        most = _fitted_tokens(index, caller, request, model, prompt, wanted, parameters)
        if request.sampling.prompt_logprobs is not None:
            check_told_prompt(request, len(prompt.token_ids))
        if request.sampling.min_tokens:
            check_min_tokens(request, most)
        names = request.names
        # Of several inputs each is computed, and holds its KV, by itself.
        longest = max(request.embed_lengths, default=len(prompt.token_ids))
        check_kv_quota(caller.policy.kv, longest, most, names.max_new_tokens)
        return assembled(
            caller,
            request,
            model,
            version,
            parameters,
            text,
            prompt,
            most,
            call_format=call_format,
            session=turn,
            # Another version's embeddings are of another space.
            fallback_versions=() if request.embed_lengths else self._alike(model, text, others),
        )

    async def tokenize(self, caller: Caller, request: GenerationRequest) -> tuple[Prompt, int]:
        """The prompt's tokens and the context of the model, without any bound on length.

        Raises:
            WeirError: as `prepare`.
        """
        check_request(request)
        request = await self._with_prefix(caller, request)
        text, context = self._text(caller, request)
        return await self._prompt(text, caller.tenant_id, request, context), context

    def token_texts(
        self, caller: Caller, request: GenerationRequest, token_ids: list[int]
    ) -> list[str]:
        """Tokens as the vocabulary of the request's model spells them. Raises WeirError."""
        return self._text(caller, request)[0].token_texts(token_ids)

    async def detokenize(self, caller: Caller, request: GenerationRequest) -> str:
        """The text of a request's `token_ids`, special tokens included.

        Raises:
            WeirError: as `prepare`; INVALID_FIELD for more tokens than the model's context.
        """
        check_request(request)
        text, context = self._text(caller, request)
        ids = list(request.token_ids or ())
        if len(ids) > context:
            raise InvalidField(request.names.prompt, Shape(ids), f"at most {context} token ids")
        text.ids_prompt(ids, request.names.prompt)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(text.decode, ids, special=True))

    async def _with_prefix(self, caller: Caller, request: GenerationRequest) -> GenerationRequest:
        """The request with its named prefix before its input, and what is declared in one form."""
        if request.prefix:
            request = await self._prefixes.applied(caller, request)
        kv = caller.policy.kv
        chosen = kv.HasField("normalise_prefix")
        return normalised(request) if kv.normalise_prefix or not chosen else request

    def _text(self, caller: Caller, request: GenerationRequest) -> tuple[ModelText, int]:
        """The texts of the request's model, and its context."""
        model = resolve_model(self._directory.required, caller, request.model)
        version = _versions(model, caller, request)[0]
        return self._texts.get(model.name, version.folder), model.max_context_tokens

    def _alike(
        self, model: Model, text: ModelText, versions: Sequence[ModelVersion]
    ) -> tuple[str, ...]:
        """Versions that would have made the same prompt of the request."""
        if model.version_fallback == VERSION_FALLBACK_NONE:
            return ()
        others = [(version.version, self._texts.loaded(version.folder)) for version in versions]
        return tuple(name for name, other in others if other and other.writes_like(text))

    async def _prompt(
        self, text: ModelText, tenant_id: str, request: GenerationRequest, context: int
    ) -> Prompt:
        if request.input_characters <= _MAX_ON_LOOP:
            return _make_prompt(text, tenant_id, request, context)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, _make_prompt, text, tenant_id, request, context
        )


def _versions(
    model: Model, caller: Caller, request: GenerationRequest, turn: SessionTurn | None = None
) -> list[ModelVersion]:
    key = sticky_key(model, caller.tenant_id, "" if turn is None else turn.session_id)
    return resolve_versions(model, request.model_version, key)


def _call_format(request: GenerationRequest, text: ModelText) -> CallFormat | None:
    if request.tool_use is None:
        return None
    if text.call_format is None:
        field = request.tool_use.field
        raise WeirError(
            Reason.UNSUPPORTED_FIELD,
            f"{field} is not supported: the chat template of this model asks for calls in no "
            "format that is known here (Hermes and Qwen, Llama 3, Mistral); leave it out, or "
            "choose another model",
            field=field,
        )
    return enforced(text.call_format) if request.tool_use.enforced else text.call_format


def _make_prompt(
    text: ModelText, tenant_id: str, request: GenerationRequest, context: int
) -> Prompt:
    if request.chat is not None:
        return text.chat_prompt(tenant_id, request.chat, context)
    if request.token_ids is not None:
        return text.ids_prompt(list(request.token_ids), request.names.prompt)
    return text.text_prompt(request.prompt or "", request.shared_prefix_characters, context)


def _wanted_tokens(
    request: GenerationRequest, caller: Caller, parameters: Parameters
) -> int | None:
    field = request.names.max_new_tokens
    if request.max_new_tokens is not None:
        return check_max_new_tokens(field, request.max_new_tokens, parameters.max_new_tokens)
    if request.requires_max_new_tokens or caller.policy.require_max_new_tokens:
        raise InvalidField(field, None, f"set, from 1 to {parameters.max_new_tokens}")
    return None


def _fitted_tokens(
    index: DirectoryIndex,
    caller: Caller,
    request: GenerationRequest,
    model: Model,
    prompt: Prompt,
    wanted: int | None,
    parameters: Parameters,
) -> int:
    length, context = len(prompt.token_ids), model.max_context_tokens
    names = request.names
    field = names.prompt if request.chat is None else names.messages
    if length == 0:
        raise InvalidField(field, "a prompt of 0 tokens", "at least one token long")
    if length >= context:
        raise over_context(
            f"the prompt has {length} tokens; {model.name} takes {context} tokens of prompt and "
            f"output together, so at most {context - 1} of prompt; shorten the prompt",
            model=model.name,
            context=context,
            requested=length + (wanted or 1),
            field=field,
        )
    if wanted is None:
        return default_max_new_tokens(
            index,
            caller,
            model=model.name,
            prompt_tokens=length,
            wanted=min(parameters.default_max_new_tokens, parameters.max_new_tokens),
            context=context,
            choices=request.sampling.n,
        )
    if length + wanted > context:
        raise over_context(
            f"the prompt has {length} tokens and {names.max_new_tokens} is {wanted}, together "
            f"{length + wanted}; {model.name} takes {context}; shorten the prompt or ask for at "
            f"most {context - length}",
            model=model.name,
            context=context,
            requested=length + wanted,
            field=field,
        )
    return wanted
