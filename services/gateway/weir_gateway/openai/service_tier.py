"""`service_tier`: OpenAI's word for class and priority."""

from typing import Any

from weir.common.v1.subject_pb2 import RequestClass
from weir_gateway.intake.checks import MAX_PRIORITY
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.openai.fields import Fields

_OWN: dict[str, dict[str, Any]] = {
    "auto": {},
    "default": {},
    "flex": {"request_class": RequestClass.REQUEST_CLASS_BATCH},
    # What the tenant may have of it is settled where every priority is.
    "priority": {"priority": MAX_PRIORITY},
}
_NAMES = {"request_class": "class", "priority": "priority"}


def to_tier(fields: Fields) -> tuple[str, dict[str, Any]]:
    """The tier that is asked for, empty for none, and what it stands for.

    Raises:
        InvalidField: there is no such tier, or `class` or `priority` say it already.
    """
    choices = {name: name for name in _OWN}
    tier = fields.choice("service_tier", choices, "")
    own = _OWN.get(tier, {})
    for name in own:
        if fields.raw(_NAMES[name]) is not None:
            bound = f"left out with {_NAMES[name]}, which says it already"
            raise fields.invalid("service_tier", tier, bound)
    return tier, own


def used_tier(asked: str, prepared: PreparedRequest) -> str:
    """The tier that a request got: `priority` only if its tenant may have one."""
    if asked == "priority":
        return "priority" if prepared.priority > 0 else "default"
    return "flex" if asked == "flex" else "default"
