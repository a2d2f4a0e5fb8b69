"""The form of a declared prefix, so that the same prefix gives the same tokens."""

from dataclasses import replace

from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.text.chat import Chat


def normalised(request: GenerationRequest) -> GenerationRequest:
    """The request with its declared prefix in one form; the user's part is as it came.

    Declared are the leading system messages of a chat, and the first `shared_prefix_characters`
    of a prompt. CRLF becomes LF, and blanks and tabs before the end of a line go; what follows
    the last end of a line stays, since the user's part may go on there.
    """
    if request.chat is not None:
        chat = _normalised_chat(request.chat)
        return request if chat is request.chat else replace(request, chat=chat)
    if request.prompt is None or request.shared_prefix_characters <= 0:
        return request
    declared = request.prompt[: request.shared_prefix_characters]
    text = normalised_text(declared)
    if text == declared:
        return request
    rest = request.prompt[request.shared_prefix_characters :]
    return replace(request, prompt=text + rest, shared_prefix_characters=len(text))


def normalised_text(text: str) -> str:
    """A text without CRs and blanks before the ends of its lines."""
    *lines, last = text.split("\n")
    if not lines:
        return text
    return "\n".join([*(line.removesuffix("\r").rstrip(" \t") for line in lines), last])


def _normalised_chat(chat: Chat) -> Chat:
    count = chat.head_length
    if not any("\n" in message.content for message in chat.messages[:count]):
        return chat
    head = [
        replace(message, content=normalised_text(message.content))
        for message in chat.messages[:count]
    ]
    return replace(chat, messages=(*head, *chat.messages[count:]))
