"""What the upstreams' answers mean here, and what they are not asked."""

from collections.abc import Sequence

from weir_core.errors import Reason, WeirError
from weir_worker.engine.events import FinishReason
from weir_worker.sampling.grammar import Grammar, GrammarKind

_GRAMMARS = {
    GrammarKind.JSON_SCHEMA: "json_schema",
    GrammarKind.REGEX: "regex",
    GrammarKind.LARK: "lark_grammar",
    GrammarKind.TAGGED_JSON: "strict",
}
_FINISHES = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def finish_of(told: str | None) -> FinishReason | None:
    """The finish reason of an upstream; None if there is none yet.

    Raises:
        WeirError: ENGINE_FAILED for any other than `stop` and `length`.
    """
    if not told:
        return None
    if told not in _FINISHES:
        raise WeirError(
            Reason.ENGINE_FAILED, f"the upstream engine ended with finish reason {told[:32]!r}"
        )
    return _FINISHES[told]


def model_not_there(wanted: str, names: Sequence[str]) -> WeirError:
    """The upstream serves other models."""
    return WeirError(
        Reason.MODEL_NOT_FOUND,
        f"the upstream engine does not serve {wanted!r}; it has "
        f"{', '.join(map(repr, names[:5])) or 'no model'}: set upstream_model",
    )


def refuse_unless(field: str, held: bool, *, told: str = "") -> None:
    """Refuse what the upstream would ignore.

    Args:
        field: the client's.
        held: the condition.
        told: how messages name the field; empty: as it is.

    Raises:
        WeirError: UNSUPPORTED_FIELD.
    """
    if not held:
        raise WeirError(
            Reason.UNSUPPORTED_FIELD,
            f"{told or field} is not known to the engine that computes for this worker",
            field=field,
        )


def refuse_grammar(grammar: Grammar | None) -> None:
    """Refuse a constrained output by the field that asks for it. Raises as `refuse_unless`."""
    if grammar is None:
        return
    field = _GRAMMARS[grammar.kind]
    # A response_format comes as a schema, and cannot be told from one.
    schema = grammar.kind is GrammarKind.JSON_SCHEMA
    refuse_unless(field, held=False, told="json_schema (or response_format)" if schema else field)
