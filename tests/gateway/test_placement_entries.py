"""Placement, pre-emption and versions: from the directory file to the scheduler's terms."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.gateway.support import document_of, published
from weir.directory.v1.directory_pb2 import VersionFallback, VersionStickiness
from weir_core.clock import ManualClock
from weir_gateway.directory.document import Document
from weir_gateway.keys import generate_key
from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import PoolRules
from weir_scheduler.server.directory_rules import DirectoryRules

KEY = generate_key("dev")


def pool_of(**fields: Any) -> PoolRules:
    """The rules of a pool with such fields, as the scheduler reads them."""
    document = document_of(KEY)
    document["pools"] = [{"name": "default", **fields}]
    rules = DirectoryRules()
    rules.use(published(document, ManualClock()).required)
    return rules.pool("tiny")


def test_a_pool_that_says_nothing_has_the_defaults_and_does_not_pre_empt() -> None:
    pool = pool_of()
    assert pool.placement == PlacementRules()
    assert pool.preemption is None


def test_pre_emption_is_on_with_the_defaults_when_it_is_named() -> None:
    assert pool_of(preemption={}).preemption == PreemptionRules()


def test_every_field_reaches_the_scheduler_and_0_is_not_absent() -> None:
    pool = pool_of(
        placement={
            "session_wait_ms": 0,
            "affinity_excess": 0.5,
            "affinity_slack_tokens": 0,
            "retry_ratio": 0,
            "retries_per_s": 0,
        },
        preemption={
            "max_overtakings": 7,
            "max_preemptions": 3,
            "max_overtake_ratio": 0.25,
            "place_wait_ms": 200,
        },
    )
    assert pool.placement == PlacementRules(0, 500, 0, 0, 0)
    assert pool.preemption == PreemptionRules(7, 3, 250, 200_000)


@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("placement", "session_wait_ms", 60_001),
        ("placement", "affinity_excess", -0.1),
        ("placement", "retry_ratio", 1.1),
        ("preemption", "max_overtake_ratio", 0),
        ("preemption", "max_preemptions", 0),
        ("preemption", "place_wait_ms", 9),
        ("preemption", "max_victims", 2),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(where: str, field: str, value: Any) -> None:
    document = document_of(KEY)
    document["pools"] = [{"name": "default", where: {field: value}}]
    with pytest.raises(ValidationError, match=field):
        Document.model_validate(document)


@pytest.mark.parametrize(
    ("said", "sticky", "fallback"),
    [
        ({}, "TENANT", "OTHER"),
        ({"sticky": "session", "version_fallback": "none"}, "SESSION", "NONE"),
        ({"sticky": "none"}, "NONE", "OTHER"),
    ],
)
def test_who_keeps_a_version_and_what_stands_in_for_it(
    said: dict[str, str], sticky: str, fallback: str
) -> None:
    document = document_of(KEY)
    document["models"][0].update(said)
    model = published(document, ManualClock()).required.model("tiny")
    assert model is not None
    assert VersionStickiness.Name(model.version_stickiness) == f"VERSION_STICKINESS_{sticky}"
    assert VersionFallback.Name(model.version_fallback) == f"VERSION_FALLBACK_{fallback}"
