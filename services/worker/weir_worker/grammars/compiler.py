"""From a grammar as a client wrote it to something that an output can be matched with."""

import json
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from weir_core.errors import Reason, WeirError
from weir_worker.grammars.output_matcher import OutputMatcher
from weir_worker.grammars.schema_fault import SchemaFault
from weir_worker.grammars.sources import schema_source, tagged_schema, tagged_source
from weir_worker.sampling.grammar import Grammar, GrammarKind

_LONGEST_PROBLEM = 300
# A tenant's schemas are few and used again and again.
_MOST_KEPT = 64
_NOTHING_MATCHES = "no text matches it"


class GrammarCompiler:
    """Compiles grammars within bounds on their size and on the work of each step.

    Blocks for milliseconds, the first time for a second or two, without holding the
    interpreter: for threads that are not the engine's, one at a time for each tenant.

    Args:
        tokenizer_path: of tokenizer.json.
        vocab_size: tokens that the model gives logits for.
        eos_token_ids: tokens of which each ends an output.
    """

    def __init__(
        self, tokenizer_path: Path, vocab_size: int, eos_token_ids: tuple[int, ...]
    ) -> None:
        self._tokenizer_path = tokenizer_path
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._tokenizer: LLTokenizer | None = None
        self._kept: OrderedDict[tuple[str, Grammar], LLMatcher] = OrderedDict()
        self._lock = Lock()
        self._masks = ThreadPoolExecutor(1, thread_name_prefix="grammar-masks")
        self._limits = LLParserLimits(
            initial_lexer_fuel=1_000_000,
            step_lexer_fuel=100_000,
            step_max_items=20_000,
            max_lexer_states=50_000,
            max_grammar_size=100_000,
            verbose_errors=False,
        )

    def compile(self, tenant: str, grammar: Grammar) -> OutputMatcher:
        """Makes a matcher at its start.

        Raises:
            WeirError: INVALID_FIELD of `grammar`, saying what is wrong and where.
        """
        # What one tenant has used makes nothing faster for another.
        key = (tenant, grammar)
        with self._lock:
            matcher = self._kept.get(key)
        if matcher is None:
            matcher = self._matcher(self._source(grammar))
            problem = _problem_of(matcher)
            if problem:
                raise self._refusal(grammar, problem)
        self._keep(key, matcher)
        return OutputMatcher(matcher.deep_copy(), self._masks)

    def _keep(self, key: tuple[str, Grammar], matcher: LLMatcher) -> None:
        with self._lock:
            self._kept[key] = matcher
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def _matcher(self, source: str) -> LLMatcher:
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = LLTokenizer(
                    str(self._tokenizer_path),
                    n_vocab=self._vocab_size,
                    eos_token=list(self._eos_token_ids),
                )
        return LLMatcher(self._tokenizer, source, limits=self._limits, log_level=0)

    def _source(self, grammar: Grammar) -> str:
        if grammar.kind is GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(grammar.text)
        if grammar.kind is GrammarKind.LARK:
            if "%json" in grammar.text:
                raise self._refusal(grammar, "%json is not taken: send a schema as json_schema")
            return LLMatcher.grammar_from_lark(grammar.text)
        try:
            if grammar.kind is GrammarKind.TAGGED_JSON:
                return tagged_source(grammar.text)
            return schema_source(grammar.text)
        except RecursionError:
            raise self._refusal(grammar, "it is nested too deeply") from None
        except ValueError as error:
            raise self._refusal(grammar, str(error)) from None

    def _refusal(self, grammar: Grammar, problem: str) -> WeirError:
        where = ""
        if grammar.kind in (GrammarKind.JSON_SCHEMA, GrammarKind.TAGGED_JSON):
            where, problem = self._located(grammar, problem)
        what = grammar.kind.value.replace("_", " ")
        line = " ".join(problem.split())[:_LONGEST_PROBLEM]
        return WeirError(
            Reason.INVALID_FIELD, f"the {what} cannot be used{where}: {line}", field="grammar"
        )

    def _located(self, grammar: Grammar, problem: str) -> tuple[str, str]:
        try:
            tagged = grammar.kind is GrammarKind.TAGGED_JSON
            text = tagged_schema(grammar.text) if tagged else grammar.text
            path, problem = SchemaFault(self._problem).find(json.loads(text), problem)
        except (ValueError, RecursionError):
            return "", problem
        return f" at {path}", problem

    def _problem(self, schema: str) -> str:
        try:
            return _problem_of(self._matcher(schema_source(schema)))
        except ValueError as error:
            return str(error)


def _problem_of(matcher: LLMatcher) -> str:
    """What is wrong with a grammar; some of it shows at its first token only."""
    if not matcher.is_error():
        matcher.compute_bitmask()
    problem: str = matcher.get_error()
    return _NOTHING_MATCHES if "NoExtensionBias" in problem else problem
