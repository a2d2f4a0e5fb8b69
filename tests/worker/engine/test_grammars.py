"""Outputs that follow a grammar, on a real (tiny, random) model in the real loop."""

import json
import re
from collections.abc import Callable
from threading import Event
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.tiny_llama import EOS_TOKEN_ID, VOCAB_SIZE, tiny_tokenizer, write_tiny_llama
from tests.worker.engine.driver import Driver
from weir_core.errors import Reason
from weir_worker.engine.commands import Preempt, Submit
from weir_worker.engine.events import FinishReason
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.grammars.compilations import Compilations
from weir_worker.grammars.compiler import GrammarCompiler
from weir_worker.grammars.output_matcher import OutputMatcher
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.sampling import Grammar, SamplingParams
from weir_worker.sampling.grammar import GrammarKind
from weir_worker.text import detokenizer_factory

PROMPT = tiny_tokenizer().encode("the answer is ", add_special_tokens=False).ids
SAMPLING = SamplingParams(temperature=1.0, seed=7)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Driver]:
    torch.set_num_threads(1)
    folder = write_tiny_llama(tmp_path_factory.mktemp("tiny"))
    model: LlamaModel = load_model(folder)
    compiler = GrammarCompiler(folder / "tokenizer.json", VOCAB_SIZE, (EOS_TOKEN_ID,))

    def driver() -> Driver:
        model.allocate_kv(128, 16)
        return Driver(
            num_blocks=128,
            block_size=16,
            runner=ModelRunner(model),
            vocab=VOCAB_SIZE,
            eos=(EOS_TOKEN_ID,),
            max_context=512,
            detokenizers=detokenizer_factory(tiny_tokenizer()),
            compile_grammar=compiler.compile,
        )

    return driver


def schema(value: Any) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(value))


LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(
        lambda low, width: {"type": "integer", "minimum": low, "maximum": low + width},
        st.integers(-1000, 1000),
        st.integers(0, 500),
    ),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 4)),
    st.builds(
        lambda values: {"enum": values},
        st.lists(st.sampled_from(["a", "bé", 1, 2.5, None, 'the "x"']), min_size=1, unique=True),
    ),
)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties)[::2],
        "additionalProperties": False,
    }


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(_object, st.dictionaries(st.sampled_from("abcde"), inner, max_size=3)),
        st.builds(lambda item: {"type": "array", "items": item, "maxItems": 2}, inner),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=SCHEMAS, seed=st.integers(0, 1000))
def test_any_schema_is_met(make: Callable[[], Driver], wanted: dict[str, Any], seed: int) -> None:
    driver = make()
    sampling = SamplingParams(temperature=1.3, seed=seed, logit_bias={270: 3.0})
    driver.submit("r", PROMPT, 480, grammar=schema(wanted), sampling=sampling)
    driver.run()
    text = driver.record("r").text
    assert driver.reason("r") in (FinishReason.STOP, FinishReason.LENGTH)
    if driver.reason("r") is FinishReason.STOP:
        jsonschema.validate(json.loads(text), wanted)
    else:
        assert len(driver.record("r").tokens) == 480


def tagged(begin: str, wanted: Any, end: str) -> Grammar:
    told = {"begin": begin, "schema": wanted, "end": end}
    return Grammar(GrammarKind.TAGGED_JSON, json.dumps(told))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1000))
def test_free_text_is_bound_between_tags(make: Callable[[], Driver], seed: int) -> None:
    """Any `e` opens a tag here; a random model writes many."""
    driver = make()
    wanted = {"type": "object", "properties": {"to": {"enum": ["x", "yz"]}}, "required": ["to"]}
    grammar = tagged("e", wanted | {"additionalProperties": False}, "|")
    sampling = SamplingParams(temperature=1.3, seed=seed)
    driver.submit("r", PROMPT, 300, grammar=grammar, sampling=sampling)
    driver.run()
    text = driver.record("r").text
    _, *parts = text.split("e")
    assume(parts)
    whole = parts if driver.reason("r") is FinishReason.STOP else parts[:-1]
    for part in whole:
        bound, end, _ = part.partition("|")
        assert end
        jsonschema.validate(json.loads(bound), wanted)


def test_batch_mates_and_preemption_change_nothing(make: Callable[[], Driver]) -> None:
    wanted = schema(_object({"a": {"type": "string", "maxLength": 12}, "b": {"type": "integer"}}))
    alone, free = make(), make()
    alone.submit("r", PROMPT, 64, grammar=wanted, sampling=SAMPLING)
    alone.run()
    free.submit("f", PROMPT, 64, sampling=SAMPLING)
    free.run()
    both = make()
    both.submit("f", PROMPT, 64, sampling=SAMPLING)
    both.submit("r", PROMPT, 64, grammar=wanted, sampling=SAMPLING)
    while len(both.record("r").tokens) < 5:
        both.step()
    both.engine.apply(Preempt("r"))
    both.run()
    assert both.record("r").tokens == alone.record("r").tokens
    assert both.record("f").tokens == free.record("f").tokens
    assert alone.record("r").tokens != free.record("f").tokens


@pytest.mark.parametrize(
    ("grammar", "check"),
    [
        (Grammar(GrammarKind.REGEX, "[0-9]{3}-[a-f]{2}"), lambda t: len(t) == 6 and t[3] == "-"),
        (Grammar(GrammarKind.REGEX, "(yes|no)"), lambda t: t in ("yes", "no")),
        (Grammar(GrammarKind.LARK, 'start: "a" b "c"\nb: /[xy]/'), lambda t: t in ("axc", "ayc")),
        (schema({"const": {"é": [1]}}), lambda t: json.loads(t) == {"é": [1]}),
    ],
)
def test_each_kind_stops_when_it_is_complete(
    make: Callable[[], Driver], grammar: Grammar, check: Callable[[str], bool]
) -> None:
    driver = make()
    driver.submit("r", PROMPT, 64, grammar=grammar, sampling=SAMPLING)
    driver.run()
    assert check(driver.record("r").text), driver.record("r").text
    assert driver.reason("r") is FinishReason.STOP
    assert driver.terminal("r").usage.completion_tokens == len(driver.record("r").tokens)


def test_a_length_cuts_it_as_ever(make: Callable[[], Driver]) -> None:
    driver = make()
    driver.submit("r", PROMPT, 3, grammar=Grammar(GrammarKind.REGEX, "[a-c]{50}"))
    driver.run()
    assert driver.reason("r") is FinishReason.LENGTH
    assert len(driver.record("r").tokens) == 3


def test_a_grammar_that_grows_too_complex_is_the_requests_own_fault(
    make: Callable[[], Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    def allowed(matcher: OutputMatcher) -> bytes:
        matcher.problem = "the grammar became too complex to follow"
        return b""

    # No ERROR: three of those would keep everybody's work from the worker.
    monkeypatch.setattr(OutputMatcher, "allowed", allowed)
    driver = make()
    grammar = Grammar(GrammarKind.REGEX, "[a-c]{50}")
    driver.submit("r", PROMPT, 20, grammar=grammar, sampling=SAMPLING)
    driver.submit("other", PROMPT, 20, ignore_eos=True)
    driver.run()
    failure = driver.terminal("r").failure
    assert failure is not None
    assert (failure.reason, failure.field) == (Reason.INVALID_FIELD, "grammar")
    assert "too complex" in failure.message
    assert driver.reason("r") is FinishReason.ABORT
    assert driver.reason("other") is FinishReason.LENGTH


BAD: list[tuple[Grammar, str]] = [
    (tagged("e", {"properties": {"x": {"uniqueItems": True}}}, "|"), r"tagged.*\$\.properties\.x"),
    (tagged("e", {"properties": {"x": {"multipleOf": 499_979}}}, "|"), "multipleOf"),
    (tagged("", {}, "|"), "begin and end"),
    (schema({"properties": {"x": {"items": {"uniqueItems": True}}}}), r"\$\.properties\.x\.items"),
    (schema({"$defs": {"d": {"type": "nope"}}, "$ref": "#/$defs/d"}), r"\$\.\$defs\.d.*nope"),
    (schema({"properties": {"a b": {"$ref": "#/$defs/no"}}}), r'\$\.properties\["a b"\].*no'),
    (schema({"anyOf": [{"type": "null"}, {"not": {}}]}), r"\$\.anyOf\[1\]"),
    (schema({"type": 5}), r" at \$:"),
    (schema({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), "json schema"),
    (
        schema(_object({"a": {"type": "integer", "minimum": 5, "maximum": 3}})),
        r"\$\.properties\.a: .*minimum \(5\)",
    ),
    (Grammar(GrammarKind.JSON_SCHEMA, "[1]"), "json schema"),
    (Grammar(GrammarKind.REGEX, "(?=a)b"), "regex.*look-around"),
    (Grammar(GrammarKind.REGEX, r"[^\x00-\U0010ffff]"), "regex.*: no text matches it"),
    (Grammar(GrammarKind.LARK, "start: start"), "lark.*: no text matches it"),
    (Grammar(GrammarKind.LARK, 'start: "a" b'), "lark.*unknown name"),
    (Grammar(GrammarKind.LARK, 'start: %json {"multipleOf": 3}'), "lark.*json_schema"),
    (schema({"properties": {"x": {"multipleOf": 499_979}}}), r"\$\.properties\.x: multipleOf"),
    (schema({"allOf": [{"multipleOf": 307}, {"multipleOf": 3.11}]}), "multiple.*at most 10000"),
    (schema({"oneOf": [{"multipleOf": 9973}] * 6}), "sum of all multipleOf"),
]


@pytest.mark.parametrize(("grammar", "told"), BAD)
def test_what_is_wrong_is_named_with_its_place(
    make: Callable[[], Driver], grammar: Grammar, told: str
) -> None:
    driver = make()
    driver.submit("r", PROMPT, 8, grammar=grammar)
    driver.submit("other", PROMPT, 8)
    driver.run()
    failure = driver.terminal("r").failure
    assert failure is not None
    assert (failure.reason, failure.field) == (Reason.INVALID_FIELD, "grammar")
    assert driver.reason("r") is FinishReason.REJECTED
    assert re.search(told, failure.message), failure.message
    assert "\n" not in failure.message
    assert driver.reason("other") is FinishReason.LENGTH


def test_an_abort_and_a_newer_attempt_find_what_is_compiled(make: Callable[[], Driver]) -> None:
    driver = make()
    grammar = Grammar(GrammarKind.REGEX, "[a-c]{20}")
    driver.submit("aborted", PROMPT, 30, grammar=grammar)
    driver.abort("aborted")
    driver.submit("moved", PROMPT, 30, grammar=grammar)
    driver.submit("moved", PROMPT, 30, grammar=grammar, attempt=2)
    driver.run()
    aborted = driver.terminal("aborted").failure
    assert aborted is not None
    assert aborted.reason is Reason.CANCELLED
    assert driver.terminal("aborted").usage.prompt_tokens == 0
    superseded = driver.terminal("moved", 1).failure
    assert superseded is not None
    assert superseded.reason is Reason.STALE_ATTEMPT
    assert driver.terminal("moved", 2).finish_reason is FinishReason.STOP


def test_a_slow_grammar_holds_up_its_own_tenant_alone() -> None:
    go, done = Event(), []

    def compile_grammar(tenant: str, grammar: Grammar) -> Any:
        if grammar.text == "slow":
            assert go.wait(30)
        done.append((tenant, grammar.text))

    compilations = Compilations(compile_grammar)
    for tenant, text in (("a", "slow"), ("a", "quick"), ("b", "quick"), ("b", "last")):
        compilations.start(
            Submit(
                request_id=f"{tenant}-{text}",
                attempt=1,
                tenant=tenant,
                prompt_token_ids=[1],
                max_new_tokens=1,
                grammar=Grammar(GrammarKind.REGEX, text),
            )
        )
    while len(compilations) > 2:
        compilations.wait(30)
        assert all(not future.exception() for _, future in compilations.take_ready())
    assert done == [("b", "quick"), ("b", "last")]
    go.set()
    while len(compilations):
        compilations.wait(30)
        assert all(not future.exception() for _, future in compilations.take_ready())
    assert done[2:] == [("a", "slow"), ("a", "quick")]
