"""Bounds of every field; each refusal names the field, the value and the bound."""

from collections.abc import Collection

from weir_core.errors import InvalidField
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.sampling_checks import check_sampling
from weir_gateway.intake.shape import Shape
from weir_gateway.intake.text_checks import check_text
from weir_gateway.text.chat import ROLES, Chat

MAX_PRIORITY = 100
MAX_CONVERSATION_ID = 256
MAX_MESSAGES = 10_000
MAX_TOKEN_IDS = 1_000_000
MAX_TOLD_PROMPT = 8_192


def check_request(request: GenerationRequest) -> None:
    """Checks everything that needs no model.

    Raises:
        WeirError: INVALID_FIELD.
    """
    _check_input(request)
    check_sampling(request.sampling, request.names)
    if request.output_format is not None:
        check_format(request)
    if not 0 <= request.priority <= MAX_PRIORITY:
        raise InvalidField("priority", request.priority, f"from 0 to {MAX_PRIORITY}")
    check_conversation_id(request.conversation_id)
    check_text("session_id", request.session_id)


def check_conversation_id(label: str) -> None:
    """Checks a client's label of a conversation.

    Raises:
        InvalidField: it is too long, no text, or has what PostgreSQL cannot hold.
    """
    if len(label) > MAX_CONVERSATION_ID:
        raise InvalidField("conversation_id", label, f"at most {MAX_CONVERSATION_ID} characters")
    check_text("conversation_id", label)
    if "\0" in label:
        raise InvalidField("conversation_id", Shape(label), "text without zero characters")


def check_max_new_tokens(field: str, value: int, most: int) -> int:
    """`value`, if it is from 1 to `most`.

    Raises:
        InvalidField: it is not.
    """
    if not 1 <= value <= most:
        raise InvalidField(field, value, f"from 1 to {most}, the most that this model allows you")
    return value


def check_min_tokens(request: GenerationRequest, max_new_tokens: int) -> None:
    """Refuses a least length above the greatest.

    Raises:
        InvalidField: it is.
    """
    if request.sampling.min_tokens > max_new_tokens:
        raise InvalidField(
            request.names.of_sampling("min_tokens"),
            request.sampling.min_tokens,
            f"from 0 to {request.names.max_new_tokens}, which is {max_new_tokens}",
        )


def check_told_prompt(request: GenerationRequest, prompt_tokens: int) -> None:
    """Refuses log-probabilities of more tokens than an answer should hold.

    Raises:
        InvalidField: the prompt has more.
    """
    if prompt_tokens > MAX_TOLD_PROMPT:
        names = request.names
        field = "echo" if request.echo else names.of_sampling("prompt_logprobs")
        raise InvalidField(
            field,
            f"set with log-probabilities of {prompt_tokens} tokens",
            f"left out for prompts of more than {MAX_TOLD_PROMPT} tokens",
        )


def check_vocabulary(request: GenerationRequest, vocab_size: int) -> None:
    """Checks the fields that name token ids or count the vocabulary.

    Raises:
        InvalidField: one is out of the vocabulary.
    """
    names, sampling = request.names, request.sampling
    if sampling.top_k is not None and sampling.top_k > vocab_size:
        raise InvalidField(
            names.of_sampling("top_k"),
            sampling.top_k,
            f"-1 or 0 (off), or from 1 to {vocab_size}, the size of the vocabulary",
        )
    for token_id, _ in sampling.logit_bias:
        if not 0 <= token_id < vocab_size:
            field = names.of_sampling("logit_bias")
            raise InvalidField(field, token_id, f"token ids from 0 to {vocab_size - 1}")
    for at, token_id in enumerate(sampling.stop_token_ids):
        if not 0 <= token_id < vocab_size:
            raise InvalidField(
                names.of_sampling(f"stop_token_ids[{at}]"),
                token_id,
                f"a token id from 0 to {vocab_size - 1}",
            )


def check_message_count(field: str, entries: Collection[object]) -> None:
    """Refuses more messages than anybody needs, before they are looked at one by one.

    Raises:
        InvalidField: there are too many.
    """
    if len(entries) > MAX_MESSAGES:
        raise InvalidField(field, Shape(list(entries)), f"at most {MAX_MESSAGES} entries")


def check_token_count(field: str, token_ids: Collection[object]) -> None:
    """Refuses more token ids than any context holds, before they are looked at one by one.

    Raises:
        InvalidField: there are too many.
    """
    if len(token_ids) > MAX_TOKEN_IDS:
        raise InvalidField(field, Shape(list(token_ids)), f"at most {MAX_TOKEN_IDS} token ids")


def check_format(request: GenerationRequest) -> None:
    """Checks the format of a request that has one, and what goes with it. Raises InvalidField."""
    assert request.output_format is not None
    request.output_format.check()
    if request.sampling.min_tokens:
        raise InvalidField(
            request.names.of_sampling("min_tokens"),
            request.sampling.min_tokens,
            f"0 with {request.output_format.field}: an answer ends where its format is complete",
        )


def _check_input(request: GenerationRequest) -> None:
    names = request.names
    check_text("model", request.model)
    if not request.model:
        raise InvalidField("model", request.model, "the name of a model")
    if request.chat is not None:
        _check_chat(request.chat, names.messages)
    elif request.token_ids is not None:
        if not request.token_ids:
            raise InvalidField(names.prompt, Shape([]), "at least one token id")
    else:
        text = request.prompt or ""
        if not text:
            raise InvalidField(names.prompt, Shape(text), "at least one character")
        check_text(names.prompt, text)
        if not 0 <= request.shared_prefix_characters <= len(text):
            raise InvalidField(
                "shared_prefix_characters",
                request.shared_prefix_characters,
                f"from 0 to {len(text)}, the length of the prompt",
            )


def _check_chat(chat: Chat, field: str) -> None:
    if not 1 <= len(chat.messages) <= MAX_MESSAGES:
        raise InvalidField(field, Shape(chat.messages), f"1 to {MAX_MESSAGES} messages")
    for at, message in enumerate(chat.messages):
        if message.role not in ROLES:
            raise InvalidField(f"{field}[{at}].role", message.role, f"one of {', '.join(ROLES)}")
        check_text(f"{field}[{at}].content", message.content)
        check_text(f"{field}[{at}].name", message.name)
        check_text(f"{field}[{at}].tool_call_id", message.tool_call_id)
