"""Declared prefixes in one form, and what stands before what."""

from dataclasses import replace

import pytest

from weir_core.errors import InvalidField
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.prefix_form import normalised, normalised_text
from weir_gateway.prefixes.prefix import (
    NEWEST,
    PrefixContent,
    calls_of_prefix,
    check_content,
    check_name,
    read_reference,
)
from weir_gateway.text.chat import Chat, ChatMessage
from weir_gateway.tools.tool_use import ToolUse

MESSY = "one \t\r\ntwo  \n\n \nthree  "
CLEAN = "one\ntwo\n\n\nthree  "
TOOL = {"type": "function", "function": {"name": "f"}}


def test_blanks_before_the_ends_of_lines_go() -> None:
    assert normalised_text(MESSY) == CLEAN
    assert normalised_text(CLEAN) == CLEAN
    assert normalised_text("a\rb \r") == "a\rb \r", "a CR alone is no end of a line"
    assert normalised_text(" " * 1_000_000 + "x") == " " * 1_000_000 + "x"


def test_only_what_is_declared_of_a_prompt_changes() -> None:
    request = GenerationRequest(model="m", prompt=MESSY + MESSY)
    assert normalised(request) is request, "nothing is declared"
    declared = replace(request, shared_prefix_characters=len(MESSY))
    made = normalised(declared)
    assert made.prompt == CLEAN + MESSY
    assert made.shared_prefix_characters == len(CLEAN)
    assert normalised(made) is made


def test_only_leading_system_messages_of_a_chat_change() -> None:
    roles = ("system", "developer", "user", "system", "assistant")
    chat = Chat(tuple(ChatMessage(role, MESSY) for role in roles))
    made = normalised(GenerationRequest(model="m", chat=chat)).chat
    assert made is not None
    assert [m.content for m in made.messages] == [CLEAN, CLEAN, MESSY, MESSY, MESSY]
    plain = GenerationRequest(model="m", chat=Chat((ChatMessage("system", "a "),)))
    assert normalised(plain) is plain


def test_a_text_stands_before_prompts_and_chats() -> None:
    content = PrefixContent(text="Rules. ")
    prompt = GenerationRequest(model="m", prompt="Why?", shared_prefix_characters=2, prefix="rules")
    made = content.before(prompt)
    assert (made.prompt, made.shared_prefix_characters, made.prefix) == ("Rules. Why?", 9, "")
    chat = GenerationRequest(model="m", chat=Chat((ChatMessage("user", "Why?"),)), prefix="rules")
    whole = content.before(chat).chat
    assert whole is not None
    assert [(m.role, m.content) for m in whole.messages] == [
        ("system", "Rules. "),
        ("user", "Why?"),
    ]


def test_tools_of_a_prefix_can_be_called() -> None:
    content = PrefixContent(chat=Chat((ChatMessage("system", "s"),), (TOOL,)))
    chat = Chat((ChatMessage("user", "Why?"),))
    request = GenerationRequest(model="m", chat=chat, prefix="p")
    native = content.before(request)
    assert native.chat is not None
    assert (native.chat.tools, native.tool_use) == ((TOOL,), None)
    parsed = replace(request, tool_use=calls_of_prefix(None, "p"))
    assert content.before(parsed).tool_use == ToolUse(frozenset({"f"}))
    own = replace(request, tool_use=ToolUse(frozenset({"g"}), parallel=False))
    assert content.before(own).tool_use == ToolUse(frozenset({"f", "g"}), parallel=False)
    assert PrefixContent(text="t").before(parsed).tool_use is None


def test_what_cannot_stand_before_what() -> None:
    chat = PrefixContent(chat=Chat((ChatMessage("system", "s"),)))
    with pytest.raises(InvalidField, match="prefix"):
        chat.before(GenerationRequest(model="m", prompt="x"))
    with pytest.raises(InvalidField, match="token ids"):
        PrefixContent(text="t").before(GenerationRequest(model="m", token_ids=(1,)))


@pytest.mark.parametrize(
    "content",
    [
        PrefixContent(text=""),
        PrefixContent(text="x" * 1_000_001),
        PrefixContent(text="\ud800"),
        PrefixContent(chat=Chat(())),
        PrefixContent(chat=Chat((ChatMessage("user", "x"),))),
        PrefixContent(chat=Chat((ChatMessage("system", "x" * 1_000_001),))),
    ],
)
def test_what_can_stand_before_nothing(content: PrefixContent) -> None:
    with pytest.raises(InvalidField):
        check_content(content)


@pytest.mark.parametrize("name", ["", "a/b", "a@1", "ä", "x" * 65, "a b", "a\n"])
def test_bad_names(name: str) -> None:
    with pytest.raises(InvalidField):
        check_name(name)


def test_references() -> None:
    assert read_reference("prefix", "a.b-c_1") == ("a.b-c_1", NEWEST)
    assert read_reference("prefix", "a@12") == ("a", 12)
    for bad in ("", "@1", "a@", "a@0", "a@x", "a@1@2", "a@-1", "a@١", f"a@{'9' * 19}"):
        with pytest.raises(InvalidField):
            read_reference("prefix", bad)
