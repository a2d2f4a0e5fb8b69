"""The directory as it is configured."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from starlette.routing import Route

from weir_gateway.console.forms.directory_json import (
    limit_json,
    model_json,
    plan_json,
    pool_config_json,
)
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Visit

_MOST = 200


class DirectoryPages:
    """The handlers, for administrators.

    Args:
        sources: see there.
        in_database: whether the directory is in a database, and not in a file.
    """

    def __init__(self, sources: Sources, *, in_database: bool) -> None:
        self._sources = sources
        self._in_database = in_database

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [gate.get("/directory", self._show, admin=True)]

    async def _show(self, visit: Visit) -> Any:
        visit.query()
        index = self._sources.directory.required
        counts = {
            name: len(getattr(index, attribute))
            for name, attribute in (
                ("tenants", "tenants"),
                ("users", "users"),
                ("keys", "api_keys"),
                ("plans", "plans"),
                ("models", "models"),
                ("pools", "pools"),
            )
        }
        return {
            "version": index.version,
            "source": "database" if self._in_database else "file",
            "counts": counts,
            "plans": _first(index.plans, plan_json),
            "models": _first(index.models, model_json),
            "pools": _first(index.pools, pool_config_json),
            "cluster_limits": _first(index.limits_over_everybody, limit_json),
        }


def _first(entries: Iterable[Any], form: Callable[[Any], Any]) -> list[Any]:
    return [form(entry) for entry in islice(entries, _MOST)]
