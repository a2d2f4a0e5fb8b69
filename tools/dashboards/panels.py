"""What a dashboard is made of, and its form for Grafana."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_WIDTH = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

TOKENS_PER_S = "suffix: tok/s"
TOKENS = "suffix: tok"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression.

    Attributes:
        expr: may use the variables of its dashboard and `$__rate_interval`.
        legend: name of each series, such as `{{model}}`.
        rare: has no answer until something happens that a healthy system does not do.
        exemplars: traces are shown beside it.
    """

    expr: str
    legend: str = ""
    rare: bool = False
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture.

    Attributes:
        title: what it shows.
        text: how to read it.
        unit: Grafana's name of the unit.
        queries: what is drawn.
        kind: `timeseries`, `stat` or `heatmap`.
        width: of 24.
        stacked: series lie on each other.
        top: highest value of the axis; None for what comes.
        alerts: whose runbooks it links to.
    """

    title: str
    text: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    top: float | None = None
    alerts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard, of the values of a label."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page.

    Attributes:
        uid: stable, for links.
        title, text: for people.
        variables: choices, beside the data source.
        rows: from top to bottom.
    """

    uid: str
    title: str
    text: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


MODEL = Variable("model", "weir_gateway_requests_total", "model")
TENANT = Variable("tenant", "weir_gateway_requests_total", "tenant")
WORKER = Variable("worker", "weir_worker_info", "instance")


def quantiles(
    metric: str, by: str, where: str = "", *, parts: tuple[float, ...] = (0.5, 0.95, 0.99)
) -> tuple[Query, ...]:
    """Percentiles of a histogram, one query each, with traces beside the highest."""
    chosen = f"{{{where}}}" if where else ""
    return tuple(
        Query(
            f"histogram_quantile({part}, sum by ({by}, le) "
            f"(rate({metric}_bucket{chosen}[$__rate_interval])))",
            f"p{round(100 * part)} {{{{{by}}}}}",
            exemplars=part == parts[-1],
        )
        for part in parts
    )


def rendered(dashboard: Dashboard) -> dict[str, Any]:
    """The JSON of Grafana."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["tokenweir"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), _runbooks(), *map(_variable, dashboard.variables)]},
        "links": [_others()],
        "panels": list(_panels(dashboard)),
    }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    top = 0
    for row in dashboard.rows:
        yield {
            "id": _id(dashboard, row.title),
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
            "panels": [],
        }
        top += 1
        left = height = 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                left, top = 0, top + height
            height = 4 if panel.kind == "stat" else 8
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            yield _panel(panel, _id(dashboard, row.title, panel.title), place)
            left += panel.width
        top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "targets": [_target(query, place) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        "links": [
            {
                "title": f"Runbook: {alert}",
                "url": f"${{runbooks}}#{alert.lower()}",
                "targetBlank": True,
            }
            for alert in panel.alerts
        ],
    }


def _target(query: Query, place: int) -> dict[str, Any]:
    return {
        "refId": chr(ord("A") + place),
        "datasource": _DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "range": True,
        "exemplar": query.exemplars,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.top is not None:
        defaults["max"] = panel.top
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stacked else 5,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "showPoints": "never",
        }
    return defaults


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"},
    "heatmap": {"calculate": False, "yAxis": {"unit": "short"}},
}


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource",
            "query": "prometheus", "current": {}}  # fmt: skip


def _runbooks() -> dict[str, Any]:
    """Where the runbooks are read; set it to the address of your copy of the documentation."""
    value = "/docs/runbooks.md"
    return {"name": "runbooks", "label": "Runbooks", "type": "textbox", "query": value,
            "hide": 2, "current": {"text": value, "value": value}}  # fmt: skip


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _others() -> dict[str, Any]:
    return {"title": "Tokenweir", "type": "dashboards", "tags": ["tokenweir"],
            "asDropdown": True, "includeVars": True, "keepTime": True}  # fmt: skip


def _id(dashboard: Dashboard, *names: str) -> int:
    """The same as long as the names are: an added panel changes no other."""
    return zlib.crc32("/".join((dashboard.uid, *names)).encode()) % 1_000_000 + 1
