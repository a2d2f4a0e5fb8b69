"""A named beginning of prompts, in one of its versions."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.intake.checks import check_message_count
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.intake.text_checks import check_text
from weir_gateway.text.chat import SYSTEM_ROLES, Chat, ChatMessage
from weir_gateway.tools.tool_use import ToolUse

MOST_CHARACTERS = 1_000_000
NEWEST = 0
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_VERSION_DIGITS = 18
_NAME_BOUND = "1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`"


@dataclass(frozen=True, slots=True)
class PrefixContent:
    """What stands before an input: exactly one of `text` and `chat` is set."""

    text: str | None = None
    chat: Chat | None = None

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.text or "") if self.chat is None else self.chat.size

    def before(self, request: GenerationRequest) -> GenerationRequest:
        """The request with this before its input.

        Raises:
            InvalidField: one cannot stand before the other.
        """
        if request.chat is not None:
            return self._before_chat(request, request.chat)
        if self.chat is not None:
            raise _unfit("of messages", "of one of text, as the request has a prompt")
        if request.prompt is None:
            raise _unfit("of text", "left out, as the request has token ids")
        text = self.text or ""
        shared = len(text) + request.shared_prefix_characters
        return replace(
            request, prompt=text + request.prompt, shared_prefix_characters=shared, prefix=""
        )

    def as_request(self, model: str) -> GenerationRequest:
        """A request that computes it and as little as possible beside."""
        if self.chat is not None:
            return GenerationRequest(model=model, chat=self.chat.with_user("."), max_new_tokens=1)
        text = self.text or ""
        return GenerationRequest(
            model=model, prompt=text, shared_prefix_characters=len(text), max_new_tokens=1
        )

    def to_json(self) -> str:
        """As it is kept."""
        if self.chat is None:
            return json.dumps({"text": self.text})
        messages = [
            {"role": message.role, "content": message.content, "name": message.name}
            for message in self.chat.messages
        ]
        tools = [dict(tool) for tool in self.chat.tools]
        return json.dumps({"messages": messages, "tools": tools})

    @classmethod
    def from_json(cls, kept: str) -> "PrefixContent":
        """What `to_json` made."""
        value: dict[str, Any] = json.loads(kept)
        if "text" in value:
            return cls(text=value["text"])
        messages = tuple(ChatMessage(**message) for message in value["messages"])
        return cls(chat=Chat(messages, tuple(value["tools"])))

    def _before_chat(self, request: GenerationRequest, chat: Chat) -> GenerationRequest:
        own = self.chat or Chat((ChatMessage("system", self.text or ""),))
        whole = Chat((*own.messages, *chat.messages), (*own.tools, *chat.tools))
        use = request.tool_use
        if use is not None:
            names = use.names | tool_names(own.tools)
            # Calls have no place for log-probabilities, and a bound answer can call nothing.
            bound = request.output_format is not None or request.sampling.logprobs is not None
            told = use.names or (names and not bound)
            use = replace(use, names=names) if told else None
        return replace(request, chat=whole, tool_use=use, prefix="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """One version. Times are Unix milliseconds.

    Attributes:
        tenant_id: whose it is; nobody else's.
        version: from 1, for each name.
        models: for whose workers it is computed.
        api_key_id: that made it, and is charged where it is computed without being asked.
    """

    tenant_id: str
    name: str
    version: int
    content: PrefixContent
    models: tuple[str, ...]
    api_key_id: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    """A prefix that was computed on a worker."""

    model: str
    worker_id: str
    time_ms: int
    prompt_tokens: int


def tool_names(tools: Sequence[Any]) -> frozenset[str]:
    """Names of tools in OpenAI's shape."""
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    names = [one.get("name") for one in functions if isinstance(one, dict)]
    return frozenset(name for name in names if isinstance(name, str))


def calls_of_prefix(use: ToolUse | None, prefix: str) -> ToolUse | None:
    """The tools that may be called, those of a prefix included once it is known."""
    return ToolUse(frozenset()) if use is None and prefix else use


def check_name(name: str) -> None:
    """Raises InvalidField when a prefix cannot be called so."""
    if not _NAME.fullmatch(name):
        raise InvalidField("name", name[:80], _NAME_BOUND)


def check_version(version: int) -> None:
    """Raises InvalidField when there can be no such version."""
    if not 0 <= version < 10**_VERSION_DIGITS:
        raise InvalidField("version", version, "a version, from 1, or 0")


def read_reference(field: str, reference: str) -> tuple[str, int]:
    """Name and version, `NEWEST` for none, of `name` or `name@version`.

    Raises:
        InvalidField: it is neither.
    """
    name, at, version = reference.partition("@")
    digits = version.isascii() and version.isdigit() and len(version) <= _VERSION_DIGITS
    if not _NAME.fullmatch(name) or (at and not digits) or (at and not int(version)):
        raise InvalidField(field, reference[:100], f"name or name@version; a name is {_NAME_BOUND}")
    return name, int(version) if at else NEWEST


def check_content(content: PrefixContent) -> None:
    """Checks what cannot stand before any input.

    Raises:
        InvalidField: it is empty, too long, or has messages of others than the system.
    """
    if content.chat is None:
        field, text = "text", content.text or ""
        if not text:
            raise InvalidField(field, Shape(text), "at least one character")
        check_text(field, text)
    else:
        field = "chat"
        _check_messages(content.chat)
    if content.size > MOST_CHARACTERS:
        raise InvalidField(
            field, f"{content.size} characters", f"at most {MOST_CHARACTERS} characters"
        )


def not_found(reference: str) -> WeirError:
    """The tenant has no such prefix."""
    return WeirError(
        Reason.NOT_FOUND,
        f"there is no prefix {reference!r} of yours; GET /v1/prefixes lists those there are, "
        "PUT /v1/prefixes/{name} makes one",
        field="prefix",
    )


def _check_messages(chat: Chat) -> None:
    check_message_count("chat.messages", chat.messages)
    if not chat.messages:
        raise InvalidField("chat.messages", Shape([]), "at least one message")
    for at, message in enumerate(chat.messages):
        field = f"chat.messages[{at}]"
        if message.role not in SYSTEM_ROLES:
            raise InvalidField(f"{field}.role", message.role, f"one of {', '.join(SYSTEM_ROLES)}")
        check_text(f"{field}.content", message.content)
        check_text(f"{field}.name", message.name)


def _unfit(value: str, bound: str) -> InvalidField:
    return InvalidField("prefix", f"the name of a prefix {value}", bound)
