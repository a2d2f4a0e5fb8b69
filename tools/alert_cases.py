"""What makes each alert fire, and what does not: written out as tests of promtool.

Each alert has a case in which it fires, with the labels that it must have, and one that is near
to it and quiet. `deploy/prometheus/tests/alerts.yml` is made of these.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "deploy" / "prometheus" / "rules"
TESTS = ROOT / "deploy" / "prometheus" / "tests" / "alerts.yml"
_LABEL = "{{{{ $labels.{} }}}}"

Series = dict[str, str]
"""Values by series, in promtool's notation, a minute apart."""


@dataclass(frozen=True, slots=True)
class Case:
    """One moment of one history.

    Attributes:
        at: when it is looked at.
        series: the history.
        fires: labels of the alerts that there are then, beside `severity`; none if it is quiet.
    """

    at: str
    series: Series
    fires: tuple[dict[str, str], ...] = ()


def _up(service: str, values: str) -> Series:
    return {f'up{{job="tokenweir", service="{service}", instance="a:1"}}': values}


def _requests(values: dict[str, str], tenant: str = "acme") -> Series:
    name = "weir_gateway_requests_total"
    return {
        f'{name}{{tenant="{tenant}", model="m", outcome="{outcome}"}}': each
        for outcome, each in values.items()
    }


def _slo(kept: str, missed: str, target: str = "0.95") -> Series:
    labels = 'tenant="acme", objective="ttft"'
    name = "weir_scheduler_slo_requests_total"
    return {
        f'{name}{{{labels}, outcome="kept"}}': kept,
        f'{name}{{{labels}, outcome="missed"}}': missed,
        f"weir_scheduler_slo_target_ratio{{{labels}}}": f"{target}x2000",
    }


def _kv(held: str, free: str, pinned: str = "0x60") -> Series:
    return {
        'weir_worker_kv_blocks{instance="w:1", state="held"}': held,
        'weir_worker_kv_blocks{instance="w:1", state="free"}': free,
        'weir_worker_kv_pinned_blocks{instance="w:1"}': pinned,
    }


def _cache(hits: str, queries: str) -> Series:
    return {
        'kv_cache_prefix_hits_total{instance="w:1"}': hits,
        'kv_cache_prefix_queries_total{instance="w:1"}': queries,
        'kv_cache_session_hits_total{instance="w:1"}': "0x200",
        'kv_cache_session_queries_total{instance="w:1"}': "0x200",
    }


def _one(name: str, values: str, **labels: str) -> Series:
    told = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return {f"{name}{{{told}}}": values}


_TTFT = {"tenant": "acme", "objective": "ttft"}
_GATEWAY = {"instance": "g:1"}
_LIMITER = {"instance": "r:1"}
_LEDGER_ERRORS = "weir_ratelimiter_ledger_errors_total"
_WORKER = {"instance": "w:1"}
_DAY = 86_400

CASES: dict[str, tuple[Case, ...]] = {
    "TokenweirSloBurnFast": (
        # 4 of 5 miss: a burn of 16 with a target of 95 %.
        Case("65m", _slo("0+2x90", "0+8x90"), (_TTFT,)),
        Case("65m", _slo("0+5x90", "0+5x90")),
        # It is over: the short window is good again.
        Case("75m", _slo("0+2x60 120+20x30", "0+8x60 480x30")),
        # One request in ten minutes is no rate.
        Case("65m", _slo("0x90", "0 _x9 1 _x9 2 _x9 3 _x9 4 _x9 5 _x9 6x30")),
        # Half may miss: more than nine of ten must, as a burn of 14.4 cannot be.
        Case("65m", _slo("0+0.5x90", "0+9.5x90", "0.5"), (_TTFT,)),
    ),
    "TokenweirSloBurn": (
        # 2 of 5 miss: a burn of 8.
        Case("70m", _slo("0+6x90", "0+4x90"), (_TTFT,)),
        Case("70m", _slo("0+8x90", "0+2x90")),
    ),
    "TokenweirSloBurnSlow": (
        # 1 of 10 misses: a burn of 2.
        Case("80m", _slo("0+90x90", "0+10x90"), (_TTFT,)),
        Case("80m", _slo("0+96x90", "0+4x90")),
    ),
    "TokenweirServiceDown": (
        Case(
            "5m",
            _up("worker", "1 1 0x10"),
            ({"job": "tokenweir", "service": "worker", "instance": "a:1"},),
        ),
        # A restart is no alert.
        Case("5m", _up("worker", "1 1 1 0 1x10")),
    ),
    "TokenweirGatewayErrors": (
        Case("20m", _requests({"ok": "0+98x30", "error": "0+2x30"}), ({},)),
        Case("20m", _requests({"ok": "0+995x30", "error": "0+5x30", "cancelled": "0+90x30"})),
    ),
    "TokenweirShed": (
        Case("25m", _requests({"ok": "0+90x30", "shed": "0+10x30"}), ({},)),
        Case("25m", _requests({"ok": "0+98x30", "shed": "0+2x30"})),
    ),
    "TokenweirTenantLimited": (
        Case(
            "50m",
            _requests({"ok": "0+10x60"})
            | _one(
                "weir_gateway_limited_total",
                "0+60x60",
                tenant="acme",
                limit_type="tokens",
                limit="tpm",
            ),
            ({"tenant": "acme"},),
        ),
        Case(
            "50m",
            _requests({"ok": "0+60x60"})
            | _one(
                "weir_gateway_limited_total",
                "0+10x60",
                tenant="acme",
                limit_type="tokens",
                limit="tpm",
            ),
        ),
    ),
    "TokenweirDirectoryRefused": (
        Case("10m", _one("weir_gateway_directory_refused_total", "0x5 1x10", **_GATEWAY),
             (_GATEWAY,)),
        Case("60m", _one("weir_gateway_directory_refused_total", "0x5 1x90", **_GATEWAY)),
    ),
    "TokenweirCertificateExpires": (
        Case(
            "30m",
            _one("weir_tls_certificate_expiry_seconds", f"{13 * _DAY}x60", **_GATEWAY)
            | _one("weir_edge_tls_certificate_expiry_seconds", f"{90 * _DAY}x60", **_GATEWAY),
            ({**_GATEWAY, "certificate": "tls"},),
        ),
        Case(
            "30m",
            _one("weir_tls_certificate_expiry_seconds", f"{15 * _DAY}x60", **_GATEWAY)
            | _one("weir_edge_tls_certificate_expiry_seconds", f"{90 * _DAY}x60", **_GATEWAY),
        ),
    ),
    "TokenweirQueueGrowing": (
        Case("30m", _one("weir_scheduler_queue_depth", "0+2x40", tenant="acme", reason="no_slot"),
             ({},)),
        # Long and steady.
        Case("30m", _one("weir_scheduler_queue_depth", "50x40", tenant="acme", reason="no_slot")),
        # Short and growing.
        Case("30m", _one("weir_scheduler_queue_depth", "0+0.5x40", tenant="a", reason="no_slot")),
    ),
    "TokenweirNoWorker": (
        Case("5m", _one("weir_scheduler_workers", "1x2 0x10", state="ready", instance="s:1"),
             ({},)),
        # Of two schedulers one stands by and knows none.
        Case(
            "5m",
            _one("weir_scheduler_workers", "0x10", state="ready", instance="s:1")
            | _one("weir_scheduler_workers", "1x10", state="ready", instance="s:2"),
        ),
    ),
    "TokenweirWorkerLost": (
        Case("8m", _one("weir_scheduler_workers", "0x5 1 0x10", state="lost", instance="s:1"),
             ({},)),
        Case(
            "8m",
            _one("weir_scheduler_requeues_total", "0x5 3x10", reason="WORKER_LOST", instance="s:1"),
            ({},),
        ),
        Case(
            "8m",
            _one("weir_scheduler_workers", "0x20", state="lost", instance="s:1")
            | _one("weir_scheduler_workers", "1x20", state="draining", instance="s:1")
            | _one("weir_scheduler_requeues_total", "0x5 3x10", reason="PREEMPTED"),
        ),
    ),
    "TokenweirWorkerUnregistered": (
        Case("5m", _one("weir_worker_registered", "0x10", **_WORKER), (_WORKER,)),
        Case("5m", _one("weir_worker_registered", "0x2 1x10", **_WORKER)),
    ),
    "TokenweirNoActiveScheduler": (
        Case("5m", _one("weir_scheduler_active", "1x2 0x10", instance="s:1"), ({},)),
        Case("5m", {}, ({},)),
        Case(
            "5m",
            _one("weir_scheduler_active", "1x2 0x10", instance="s:1")
            | _one("weir_scheduler_active", "0x2 1x10", instance="s:2"),
        ),
    ),
    "TokenweirSeveralActiveSchedulers": (
        Case(
            "5m",
            _one("weir_scheduler_active", "1x10", instance="s:1")
            | _one("weir_scheduler_active", "1x10", instance="s:2"),
            ({},),
        ),
        Case(
            "5m",
            _one("weir_scheduler_active", "1x10", instance="s:1")
            | _one("weir_scheduler_active", "0x10", instance="s:2"),
        ),
    ),
    "TokenweirEngineSilent": (
        Case("5m", _one("weir_worker_engine_up", "1 0x10", **_WORKER), (_WORKER,)),
        Case("5m", _one("weir_worker_engine_age_seconds", "0.2 60+60x10", **_WORKER), (_WORKER,)),
        Case(
            "5m",
            _one("weir_worker_engine_up", "1x10", **_WORKER)
            | _one("weir_worker_engine_age_seconds", "5x10", **_WORKER),
        ),
    ),
    "TokenweirStepsFail": (
        Case("9m", _one("weir_worker_failed_steps_total", "0x5 1x10", **_WORKER), (_WORKER,)),
        Case("9m", _one("weir_worker_failed_steps_total", "7x20", **_WORKER)),
    ),
    "TokenweirKvFull": (
        Case("20m", _kv("98x30", "2x30"), (_WORKER,)),
        # Sessions hold it, and yield.
        Case("20m", _kv("98x30", "2x30", pinned="50x30")),
        Case("20m", _kv("90x30", "10x30")),
    ),
    "TokenweirPreemptions": (
        Case("30m", _one("weir_worker_preemptions_total", "0+1x40", **_WORKER), (_WORKER,)),
        Case("30m", _one("weir_worker_preemptions_total", "0x10 4x40", **_WORKER)),
    ),
    "TokenweirHitRateFell": (
        Case("130m", _cache("0+600x90 54060+60x50", "0+1000x200"), (_WORKER,)),
        Case("130m", _cache("0+600x90 54400+400x50", "0+1000x200")),
        # Hardly anything is asked.
        Case("130m", _cache("0+6x90 540x50", "0+10x200")),
    ),
    "TokenweirDeviceTaken": (
        Case(
            "15m",
            _one("weir_worker_device_utilisation_ratio", "0.7x20", by="foreign", **_WORKER),
            ({"by": "foreign", **_WORKER},),
        ),
        Case(
            "15m",
            _one("weir_worker_device_utilisation_ratio", "0.3x20", by="foreign", **_WORKER)
            | _one("weir_worker_device_utilisation_ratio", "1x20", by="all", **_WORKER),
        ),
    ),
    "TokenweirStoreDown": (
        Case("5m", _one("weir_ratelimiter_mode", "0 1x10", **_LIMITER), (_LIMITER,)),
        Case("5m", _one("weir_ratelimiter_mode", "0x10", **_LIMITER)),
    ),
    "TokenweirStoreStateLost": (
        Case("9m", _one("weir_ratelimiter_store_states_lost_total", "0x5 1x10", **_LIMITER),
             (_LIMITER,)),
        Case("9m", _one("weir_ratelimiter_store_states_lost_total", "2x20", **_LIMITER)),
    ),
    "TokenweirLedgerLag": (
        Case("20m", _one("weir_ratelimiter_ledger_lag_seconds", "0+60x30", **_LIMITER),
             (_LIMITER,)),
        Case("20m", _one("weir_ratelimiter_ledger_lag_seconds", "120x30", **_LIMITER)),
    ),
    "TokenweirLedgerErrors": (
        Case(
            "25m",
            _one(_LEDGER_ERRORS, "0x5 1+1x30", cause="database", **_LIMITER),
            ({"cause": "database", **_LIMITER},),
        ),
        # Once, and tried again.
        Case(
            "25m",
            _one(_LEDGER_ERRORS, "0x12 1x30", cause="database", **_LIMITER),
        ),
    ),
    "TokenweirLedgerRejected": (
        Case(
            "10m",
            _one(_LEDGER_ERRORS, "0x5 1x30", cause="rejected", **_LIMITER),
            ({"cause": "rejected", **_LIMITER},),
        ),
        Case(
            "10m",
            _one(_LEDGER_ERRORS, "0x5 1x30", cause="store", **_LIMITER),
        ),
    ),
    "TokenweirUnsettled": (
        Case("10m", _one("weir_gateway_unsettled_total", "0x5 1x30", **_GATEWAY), (_GATEWAY,)),
        Case("10m", _one("weir_gateway_unsettled_total", "4x30", **_GATEWAY)),
    ),
    "TokenweirUnheardCalls": (
        Case("10m", _one("weir_gateway_unheard_calls", "3x20", **_GATEWAY), (_GATEWAY,)),
        Case("10m", _one("weir_gateway_unheard_calls", "3x4 0x20", **_GATEWAY)),
    ),
}  # fmt: skip


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts of the rules, by name."""
    rules = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


def promtool_tests() -> str:
    """The text of `TESTS`."""
    document = {
        "rule_files": ["../rules/recording.yml", "../rules/alerts.yml"],
        "evaluation_interval": "1m",
        "tests": list(_tests()),
    }
    head = "# Made by tools/alert_cases.py (`make proto`). `promtool test rules` runs it.\n"
    return head + yaml.safe_dump(document, sort_keys=False, width=100)


def _tests() -> Iterator[dict[str, Any]]:
    known = alerts()
    for name, cases in CASES.items():
        for number, case in enumerate(cases, 1):
            yield {
                "name": f"{name} {number}",
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": values} for series, values in case.series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": case.at,
                        "alertname": name,
                        "exp_alerts": [_expected(known[name], labels) for labels in case.fires],
                    }
                ],
            }


def _expected(rule: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    said = {}
    for key, text in rule["annotations"].items():
        for label, value in labels.items():
            text = text.replace(_LABEL.format(label), value)
        said[key] = text
    return {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": said}
