"""Templates that would take all time or memory, or reach out of their sandbox, end in an error."""

import time
import tracemalloc

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bench.golden_logprobs import MESSAGES
from tests.default_model import default_model_folder
from tests.gateway.test_text import chat, template
from weir_core.errors import WeirError
from weir_core.model_folder import ModelFolder

_DOUBLED = "{% set n = namespace(v='ab') %}{% for i in range(60) %}{% set n.v = BODY %}{% endfor %}"
_PAIRED = (
    "{% set n = namespace(v='ab') %}{% for i in range(60) %}{% set n.v = [n.v, n.v] %}{% endfor %}"
)
_SPACES = "".join(
    f"{{% set s{i} = namespace(v=[s{i - 1}, s{i - 1}]) %}}" if i else "{% set s0 = 1 %}"
    for i in range(50)
)
_LOOPS = "{% for a in range(9999) %}" * 3 + "{% endfor %}" * 3
_RECURSION = "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (_LOOPS, "it ran longer than 2.0 s"),
        ("{% for a in range(99999) %}{% for b in messages * 999 %}{% endfor %}{% endfor %}", "2.0"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "OverflowError"),
        (_RECURSION, "RecursionError"),
        (_DOUBLED.replace("BODY", "n.v ~ n.v"), "beyond 1000000"),
        (_DOUBLED.replace("BODY", "n.v + n.v"), "of size"),
        (_DOUBLED.replace("BODY", "[n.v, n.v]|join(n.v)"), "of size"),
        (_DOUBLED.replace("BODY", "n.v.replace('a', n.v)"), "of size"),
        (_DOUBLED.replace("BODY", "n.v|replace('a', n.v)"), "of size"),
        (_DOUBLED.replace("BODY", "'%s%s'|format(n.v, n.v)"), "beyond 1000000"),
        (_PAIRED + "{{ n.v }}", "beyond 1000000"),
        (_PAIRED + "{{ n.v|tojson }}", "beyond 1000000"),
        (_PAIRED + "{{ n.v|string }}", "beyond 1000000"),
        (_PAIRED + "{{ {'a': n.v}.items() }}", "beyond 1000000"),
        (_SPACES + "{{ s49 }}", "a namespace is no text"),
        ("{{ 'a' * 10 ** 10 }}", "value of size 10000000000"),
        ("{{ [1] * 10 ** 10 }}", "value of size 10000000000"),
        ("{{ 9 ** 99999 }}", "value of size"),
        ("{{ 'a'.ljust(10 ** 10) }}", "value of size 10000000000"),
        ("{{ 'a'|center(10 ** 10) }}", "value of size 10000000000"),
        ("{{ 'a\n\nb'|indent(10 ** 10) }}", "value of size 30000000000"),
        ("{{ '%9999999999d' % 1 }}", "a width of 10,000 or more"),
        ("{{ '{:>9999999999}'.format(1) }}", "a width of 10,000 or more"),
        ("{{ '%*d'|format(9999999999, 1) }}", "a width of 10,000 or more"),
        ("{{ lipsum(n=99999) }}", "UndefinedError|lipsum"),
        ("{{ 'a'.translate({97: 'b'}) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "TypeError"),
        ("{% import '/etc/passwd' as p %}", "TypeError"),
        ("{{ self.__init__.__globals__ }}", "unsafe|undefined"),
        ("{{ cycler.__init__.__globals__.os.environ }}", "unsafe|undefined"),
        ("{{ raise_exception.__globals__.os }}", "unsafe|undefined"),
    ],
)
@pytest.mark.timeout(60)
def test_it_ends_within_bounds(source: str, told: str) -> None:
    hostile = template(source)
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(WeirError) as refused:
            hostile.render(chat(("user", "my secret question")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert any(part in refused.value.message for part in told.split("|")), refused.value.message
    assert "secret" not in refused.value.message
    assert time.process_time() - began < 20
    assert peak < 200 << 20


def test_what_templates_do_is_left_as_it_is() -> None:
    source = (
        "{%- macro turn(m) -%}<{{ m.role }}>{{ caller() if caller else '' }}{%- endmacro -%}"
        "{%- set n = namespace(system='', first=true) -%}"
        "{%- for m in messages if m.content -%}"
        "{%- if m.role == 'system' -%}{%- set n.system = n.system ~ m.content|trim -%}"
        "{%- else -%}{{ turn(m) }}{{ '%s' % m.content|upper }}{{ '-' * 3 }}"
        "{{ loop.index0 + 1 }}{{ ['a', 'b']|join(', ') }}{{ m.content.replace('l', 'L') }}"
        "{%- endif -%}{%- endfor -%}[{{ n.system }}]{{ {'k': [1, 'ü']}|tojson(indent=2) }}"
        "{{ messages|map(attribute='role')|list|length }}{{ 'x'|indent(2, true) }}"
        "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(',') }}"
    )
    rendered = template(source).render(chat(("system", " s "), ("user", "hello")))
    assert rendered == ('<user>HELLO---2a, bheLLo[s]{\n  "k": [\n    1,\n    "ü"\n  ]\n}2  xhello')


@pytest.mark.model
def test_the_default_models_template_is_left_as_it_is() -> None:
    source = ModelFolder(default_model_folder()).chat_template
    assert source is not None
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    expected = plain.from_string(source).render(messages=MESSAGES, add_generation_prompt=True)
    turns = [(message["role"], message["content"]) for message in MESSAGES]
    assert template(source).render(chat(*turns)) == expected
