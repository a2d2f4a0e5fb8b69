"""A conversation as templates see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SYSTEM_ROLES = ("system", "developer")
ROLES = (*SYSTEM_ROLES, "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn; `tool_calls` is OpenAI's list of objects, or empty."""

    role: str
    content: str
    name: str = ""
    tool_call_id: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()

    def for_template(self) -> dict[str, Any]:
        """What a template reads; `developer` is the newer name of `system`."""
        role = "system" if self.role == "developer" else self.role
        fields: dict[str, Any] = {"role": role, "content": self.content}
        if self.name:
            fields["name"] = self.name
        if self.tool_call_id:
            fields["tool_call_id"] = self.tool_call_id
        if self.tool_calls:
            fields["tool_calls"] = list(self.tool_calls)
        return fields


@dataclass(frozen=True, slots=True)
class Chat:
    """Messages and the tools that the model is told of, in OpenAI's shape."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def size(self) -> int:
        """Characters of all contents, calls and tools, for choosing where to do the work."""
        size = sum(len(message.content) for message in self.messages)
        calls = [call for message in self.messages for call in message.tool_calls]
        return size + len(repr((calls, self.tools))) if calls or self.tools else size

    def head(self) -> "Chat":
        """The leading system messages and the tools: what a tenant's requests share."""
        return Chat(self.messages[: self.head_length], self.tools)

    @property
    def head_length(self) -> int:
        """How many messages lead, of the system."""
        for at, message in enumerate(self.messages):
            if message.role not in SYSTEM_ROLES:
                return at
        return len(self.messages)

    def with_user(self, content: str) -> "Chat":
        """This chat and one more user turn."""
        return Chat((*self.messages, ChatMessage("user", content)), self.tools)
