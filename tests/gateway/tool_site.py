"""A gateway whose model writes calls as Hermes does, and the tools that tests send."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.harness import MODEL, Gateway, running_gateway, write_model_folder

TEMPLATE = (
    "{% if tools %}Tools: {% for tool in tools %}{{ tool | tojson }}{% endfor %} "
    "Call as <tool_call>{json}</tool_call>\n{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}"
    "{% for call in message.tool_calls or [] %}"
    "<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "{{ '\\n' }}{% endfor %}assistant: "
)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
CONTEXT = 2_000


@asynccontextmanager
async def tool_gateway(tmp_path: Path, **settings: Any) -> AsyncIterator[Gateway]:
    """Model `tiny` knows tools; `plain` does not."""
    folder = write_model_folder(tmp_path / "hermes")
    (folder / "chat_template.jinja").write_text(TEMPLATE)

    def change(document: dict[str, Any]) -> None:
        plain = document["models"][0] | {"name": "plain", "aliases": []}
        hermes = {"versions": [{"version": "v1", "folder": str(folder)}], "max_context": CONTEXT}
        document["models"][0] |= hermes
        document["models"].append(plain)
        document["tenants"][0]["policy"]["allowed_models"] = [MODEL, "plain"]

    async with running_gateway(tmp_path, change=change, **settings) as gateway:
        yield gateway


def prompt_of(gateway: Gateway, at: int = -1) -> str:
    """The text of a prompt that the worker got: each byte is a token."""
    edge = gateway.app.edge
    assert edge is not None
    text = edge.texts.loaded(gateway.document["models"][0]["versions"][0]["folder"])
    assert text is not None
    return text.decode(list(gateway.worker.specs[at].prompt_token_ids))
