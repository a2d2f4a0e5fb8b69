"""Whatever is sent to the HTTP door: never a fault, never another answer than the document says."""

from collections.abc import Callable
from typing import Any

import httpx2
import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.authorisation.site import MAKERS
from tests.authorisation.surface import every_route
from tests.authorisation.table import ROUTES, Door, HttpRow
from tests.fuzz.site import FuzzSite
from tests.gateway.harness import MODEL
from weir_gateway.openapi.document import document

DOCUMENT = document()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS: list[Any] = [found.ok() for found in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
CHECKS: list[Callable[..., Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    ignored_auth,
    unsupported_method,
]
_CASES, _SOAK_CASES = 300, 10_000
_TIMEOUT_S = 30
_KINDS = {
    "responses": "response",
    "jobs": "job",
    "batches": "batch",
    "files": "file",
    "sessions": "session",
    "prefixes": "prefix",
}
# What a stopped limiter or a full queue answers is tried elsewhere; here nothing may be away.
NEVER = {500, 501, 502, 503, 504}


def test_every_route_is_in_the_document(site: FuzzSite) -> None:
    edge = site.gateway.app.edge
    assert edge is not None
    served = {
        f"{method} {path.replace(':path', '')}"
        for path, methods in every_route(edge.http_app()).items()
        for method in methods
    }
    told = {
        f"{method.upper()} {path}"
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
        if method != "parameters"
    }
    assert told == served


def test_it_is_served_without_a_key_and_valid(site: FuzzSite) -> None:
    answer = httpx2.get(f"http://{site.gateway.app.http_address}/openapi.json", timeout=20)
    assert answer.status_code == 200
    assert answer.json() == DOCUMENT
    assert answer.json()["openapi"].startswith("3.1")
    SCHEMA.validate()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_300_requests(site: FuzzSite, operation: Any) -> None:
    fuzz(site, operation, max(2, _CASES // len(OPERATIONS)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_10_000_requests(site: FuzzSite, operation: Any) -> None:
    fuzz(site, operation, _SOAK_CASES // len(OPERATIONS))


def fuzz(site: FuzzSite, operation: Any, cases: int) -> None:
    """Half of the cases fit the schema, and half name models and objects that there are."""
    base = f"http://{site.gateway.app.http_address}"
    headers = {"authorization": f"Bearer {site.gateway.key.secret}"}
    there = site.run(_things(site, operation.path))
    site.begin()

    @hypothesis.settings(
        max_examples=cases,
        database=None,
        derandomize=cases < 50,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(
        case=operation.as_strategy() | _negative(operation), known=hypothesis.strategies.booleans()
    )
    def run(case: Any, known: bool) -> None:
        if known:
            _name_what_is_there(case, there)
        answer = case.call(base_url=base, headers=headers, timeout=_TIMEOUT_S)
        assert answer.status_code not in NEVER, answer.text
        case.validate_response(answer, checks=CHECKS, headers=headers)

    run()
    site.check_nothing_is_left()


async def _things(site: FuzzSite, path: str) -> dict[str, str]:
    """Ids of new objects by the parameters of a path."""
    kind = _KINDS.get(path.split("/")[2] if path.count("/") > 1 else "", "")
    if "{" not in path or not kind:
        return {"name": MODEL}
    made = await MAKERS[kind](site.gateway)
    return dict.fromkeys(("id", "name", f"{kind}_id"), made)


def _name_what_is_there(case: Any, there: dict[str, str]) -> None:
    if isinstance(case.body, dict) and "model" in case.body:
        valid = ROUTES.get(f"{case.method} {case.path}", HttpRow(Door.OPEN)).body or {}
        few = dict(list(case.body.items())[-2:])
        case.body = case.body | {"model": MODEL} if not valid else few | valid
    for name in case.path_parameters or {}:
        if name in there:
            case.path_parameters[name] = there[name]


def _negative(operation: Any) -> Any:
    return operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
