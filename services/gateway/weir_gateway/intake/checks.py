"""Bounds of every field; each refusal names the field, the value and the bound."""

import math
from collections.abc import Collection, Sequence

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.intake.generation_request import FieldNames, GenerationRequest, SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.text.chat import ROLES, Chat

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_STOP_IDS = 64
MAX_PRIORITY = 100
MAX_CONVERSATION_ID = 256
MAX_MESSAGES = 10_000
MAX_TOKEN_IDS = 1_000_000
_INT64 = 2**63


def check_request(request: GenerationRequest) -> None:
    """Checks everything that needs no model.

    Raises:
        WeirError: INVALID_FIELD or NOT_FOUND.
    """
    _check_input(request)
    _check_sampling(request.sampling, request.names)
    if not 0 <= request.priority <= MAX_PRIORITY:
        raise InvalidField("priority", request.priority, f"from 0 to {MAX_PRIORITY}")
    if len(request.conversation_id) > MAX_CONVERSATION_ID:
        raise InvalidField(
            "conversation_id", request.conversation_id, f"at most {MAX_CONVERSATION_ID} characters"
        )
    check_text("conversation_id", request.conversation_id)
    check_text("session_id", request.session_id)
    if request.session_id:
        raise WeirError(
            Reason.NOT_FOUND,
            "there is no such session of this tenant; leave session_id out, sessions cannot be "
            "created yet",
            field="session_id",
        )


def check_max_new_tokens(field: str, value: int, most: int) -> int:
    """`value`, if it is from 1 to `most`.

    Raises:
        InvalidField: it is not.
    """
    if not 1 <= value <= most:
        raise InvalidField(field, value, f"from 1 to {most}, the most that this model allows you")
    return value


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


def check_text(field: str, text: str) -> None:
    """Refuses lone surrogates: what cannot be written as UTF-8.

    Raises:
        InvalidField: the text has one.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidField(
            field,
            f"\\u{ord(text[error.start]):04x} at character {error.start}",
            "text without lone surrogates, as these are not UTF-8",
        ) from None


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


def _check_sampling(sampling: SamplingRequest, names: FieldNames) -> None:
    _check_number(names.of_sampling("temperature"), sampling.temperature, 0.0, 2.0)
    _check_number(names.of_sampling("top_p"), sampling.top_p, 0.0, 1.0, above=True)
    if sampling.top_k is not None and sampling.top_k < -1:
        raise InvalidField(
            names.of_sampling("top_k"), sampling.top_k, "-1 or 0 (off), or 1 and more"
        )
    if sampling.seed is not None and not -_INT64 <= sampling.seed < _INT64:
        raise InvalidField(names.of_sampling("seed"), sampling.seed, "an integer of 64 bits")
    _check_stops(sampling.stop, names.of_sampling("stop"))
    if len(sampling.stop_token_ids) > MAX_STOP_IDS:
        raise InvalidField(
            names.of_sampling("stop_token_ids"),
            Shape(sampling.stop_token_ids),
            f"at most {MAX_STOP_IDS} ids",
        )


def _check_stops(stops: Sequence[str], field: str) -> None:
    if len(stops) > MAX_STOPS:
        raise InvalidField(field, Shape(stops), f"at most {MAX_STOPS} strings")
    for at, stop in enumerate(stops):
        if not 1 <= len(stop) <= MAX_STOP_CHARACTERS:
            bound = f"1 to {MAX_STOP_CHARACTERS} characters"
            raise InvalidField(f"{field}[{at}]", Shape(stop), bound)
        check_text(f"{field}[{at}]", stop)


def _check_number(
    field: str, value: float | None, low: float, high: float, *, above: bool = False
) -> None:
    if value is None:
        return
    fits = math.isfinite(value) and (low < value if above else low <= value) and value <= high
    if not fits:
        start = f"above {low:g}" if above else f"from {low:g}"
        end = f"and at most {high:g}" if above else f"to {high:g}"
        raise InvalidField(field, value, f"a finite number {start} {end}")
