"""Calls of tools in the text of answers: every format, cut anywhere, and nothing lost."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_gateway.tools.call_format import (
    HERMES,
    LLAMA3,
    MISTRAL,
    CallFormat,
    enforced,
    format_of,
)
from weir_gateway.tools.call_parser import CallParser
from weir_gateway.tools.events import CallArguments, CallBegins, Content, ToolEvent

NAMES = ("weather", "add")
ENFORCED = enforced(HERMES)
FORMATS = [HERMES, LLAMA3, MISTRAL, ENFORCED]


def events_of(form: CallFormat, pieces: list[str], most: int | None = None) -> list[ToolEvent]:
    parser = CallParser(form, NAMES, most=most)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


def read(
    form: CallFormat, pieces: list[str], most: int | None = None
) -> tuple[str, list[tuple[str, str]]]:
    """Content, and the name and arguments of each call."""
    content = ""
    calls: list[tuple[str, str]] = []
    for event in events_of(form, pieces, most):
        if isinstance(event, Content):
            content += event.text
        elif isinstance(event, CallBegins):
            assert event.index == len(calls)
            calls.append((event.name, ""))
        else:
            name, arguments = calls[event.index]
            calls[event.index] = (name, arguments + event.text)
    return content, calls


def written(form: CallFormat, calls: list[tuple[str, dict[str, object]]], key: str) -> str:
    """Calls as a model writes them."""
    objects = [json.dumps({"name": name, key: arguments}) for name, arguments in calls]
    if form is HERMES:
        return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in objects)
    if form is LLAMA3:
        return "; ".join(objects)
    return f"{form.opening}[{', '.join(objects)}]"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.dictionaries(st.text(max_size=6), VALUES, max_size=3)),
    min_size=1,
    max_size=3,
)
CUTS = st.lists(st.integers(0, 400), max_size=12)
# Texts made of what formats are made of: most are broken in some way.
SHARDS = st.lists(
    st.sampled_from(
        [
            *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<tool", "[", "]"),
            *("{", "}", '"', "\\", ",", ";", ":", " ", "\n", "a", "é", '{"name": "add"'),
            *(', "arguments": {', '"x": 1', '{"name": "add", "parameters": {}}', '"nobody"'),
            '{"arguments": {"x": 1}, "name": "add"}',
        ]
    ),
    max_size=14,
).map("".join)


def cut(text: str, at: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(min(place, len(text)) for place in at)})
    return [text[left:right] for left, right in pairwise(bounds)]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@settings(max_examples=40, deadline=None)
@given(calls=CALLS, cuts=CUTS, key=st.sampled_from(["arguments", "parameters"]))
def test_what_a_model_called_is_told_however_it_is_cut(
    form: CallFormat, calls: list[tuple[str, dict[str, object]]], cuts: list[int], key: str
) -> None:
    content, told = read(form, cut(written(form, calls, key), cuts))
    assert content == ""
    assert [(name, json.loads(arguments)) for name, arguments in told] == calls


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@settings(max_examples=40, deadline=None)
@given(text=SHARDS, cuts=CUTS)
def test_any_cutting_of_any_text_gives_the_same(
    form: CallFormat, text: str, cuts: list[int]
) -> None:
    whole = read(form, [text])
    assert read(form, cut(text, cuts)) == whole
    assert read(form, list(text)) == whole


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@settings(max_examples=40, deadline=None)
@given(text=SHARDS)
def test_an_answer_without_calls_is_its_text(form: CallFormat, text: str) -> None:
    content, calls = read(form, [text])
    if not calls:
        assert content == text


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_plain_text_is_never_touched(text: str) -> None:
    for form in FORMATS:
        assert read(form, [text]) == (text, [])


def test_name_first_then_the_arguments_as_they_come() -> None:
    parser = CallParser(HERMES, NAMES, most=None)
    assert parser.feed('Let me see.\n<tool_call>\n{"name": "weath') == [Content("Let me see.")]
    assert parser.feed('er", "arguments": {"ci') == [
        CallBegins(0, "weather"),
        CallArguments(0, '{"ci'),
    ]
    assert parser.feed('ty": "Pa}ris"') == [CallArguments(0, 'ty": "Pa}ris"')]
    assert parser.feed("}}\n</tool_call>\n") == [CallArguments(0, "}")]
    assert parser.finish() == []


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (HERMES, '<tool_call>\n{"name": "nobody", "arguments": {}}\n</tool_call>'),
        (HERMES, '<tool_call>{"name": "add", oops</tool_call> so what'),
        (HERMES, '<tool_call>{"name": "add", "arguments": 7}</tool_call>'),
        (HERMES, "<tool_call>none</tool_call>"),
        (HERMES, '<tool_call>{"name": "add"'),
        (HERMES, '{"name": "add", "arguments": {}}'),
        (LLAMA3, '{"answer": {"name": "add"}}'),
        (LLAMA3, 'I would call {"name": "add", "parameters": {}}'),
        (MISTRAL, '[{"name": "nobody", "arguments": {}}]'),
        (MISTRAL, "[1, 2, 3]"),
    ],
)
def test_what_is_no_call_is_content_and_whole(form: CallFormat, text: str) -> None:
    assert read(form, [text]) == (text, [])
    assert read(form, list(text)) == (text, [])


def test_other_spellings_of_a_call() -> None:
    spelled = [
        '{"arguments": {"x": 1}, "name": "add"}',
        '{"type": "function", "name": "add", "parameters": {"x": 1}}',
        '{"name": "add", "arguments": "{\\"x\\": 1}"}',
        '{"name": "add", "arguments": {"x": 1}, "id": "abc"}',
    ]
    for text in spelled:
        content, ((name, arguments),) = read(HERMES, [f"<tool_call>{text}</tool_call>"])
        assert (content, name, json.loads(arguments)) == ("", "add", {"x": 1})
    assert read(LLAMA3, ['{"name": "add"}']) == ("", [("add", "{}")])


def test_a_call_that_breaks_half_way_keeps_its_beginning_and_the_rest_is_content() -> None:
    text = '<tool_call>{"name": "add", "arguments": {"x": 1</tool_call> done'
    assert read(HERMES, [text]) == ("</tool_call> done", [("add", '{"x": 1')])


def test_more_calls_than_allowed_are_content() -> None:
    one = '<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>'
    assert read(HERMES, [one + one], most=1) == (one, [("add", '{"x": 1}')])


def test_the_format_is_that_of_the_template() -> None:
    hermes = "{% if tools %}<tools></tools> within <tool_call></tool_call>{% endif %}"
    assert format_of(hermes, ()) is HERMES
    assert format_of(hermes, {"<tool_call>"}) is None
    assert format_of(hermes + "<function=name>", ()) is None
    assert format_of("{% if tools %}[AVAILABLE_TOOLS][TOOL_CALLS]{% endif %}", ()) is MISTRAL
    assert format_of("{% if tools %}[TOOL_CALLS]name[ARGS]{% endif %}", ()) is None
    llama = '{{ tools }} {"name": function name, "parameters": dictionary of argument name}'
    assert format_of(llama, ()) is LLAMA3
    assert format_of("{{ messages }}", ()) is None
    assert format_of("{{ tools }}", ()) is None
