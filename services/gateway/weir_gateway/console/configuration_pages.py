"""The settings in force of every service."""

import json
from typing import Any

from starlette.routing import Route

from weir.gateway.v1.insight_service_pb2 import ServiceConfiguration
from weir.process.v1.process_service_pb2 import Setting, SettingSource
from weir_core.telemetry.redaction import MASK
from weir_gateway.console.forms.moments import moment, word
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources, only_at_edges
from weir_gateway.console.visit import Visit
from weir_gateway.insight.desk import InsightDesk


class ConfigurationPages:
    """The handlers, for administrators.

    Args:
        sources: see there.
        desk: asks the services; None: this process has none.
    """

    def __init__(self, sources: Sources, desk: InsightDesk | None) -> None:
        self._sources = sources
        self._desk = desk

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [gate.get("/configuration", self._show, admin=True)]

    async def _show(self, visit: Visit) -> Any:
        visit.query()
        return await self._sources.cards.of(self._services())

    async def _services(self) -> list[dict[str, Any]]:
        if self._desk is None:
            raise only_at_edges()
        answer = await self._desk.get_configuration()
        return [_service_json(service) for service in answer.services]


def _service_json(service: ServiceConfiguration) -> dict[str, Any]:
    told = service.settings
    return {
        "service": service.service,
        "instance": service.address,
        "version": told.version,
        "start_time": moment(told, "start_time"),
        "error": service.error or None,
        "settings": [_setting_json(setting) for setting in told.settings],
    }


def _setting_json(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": MASK if setting.masked else _value(setting.value_json),
        "source": (word(SettingSource, setting.source, "SETTING_SOURCE_") or "unknown").lower(),
        "description": setting.description,
        "variable": setting.variable,
        "secret": setting.masked,
    }


def _value(text: str) -> Any:
    return json.loads(text) if text else None
