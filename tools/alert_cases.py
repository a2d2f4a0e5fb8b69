"""What makes each alert fire, and what does not.

Each alert has a case in which it fires, with the labels that it must have, and one that is near
to it and quiet: the numbers of a rule cannot be changed much without a case that tells.
"""

from dataclasses import dataclass

Series = dict[str, str]
"""Values by series, in promtool's notation, a minute apart."""


@dataclass(frozen=True, slots=True)
class Case:
    """One moment of one history.

    Attributes:
        at: when it is looked at.
        series: the history.
        fires: labels of the alerts that there are then, beside `severity`; none if it is quiet.
        not_yet: an earlier moment, at which it is so already, and not for long enough.
    """

    at: str
    series: Series
    fires: tuple[dict[str, str], ...] = ()
    not_yet: str = ""


def _up(service: str, values: str) -> Series:
    return {f'up{{job="tokenweir", service="{service}", instance="a:1"}}': values}


def _requests(values: dict[str, str], tenant: str = "acme") -> Series:
    name = "weir_gateway_requests_total"
    return {
        f'{name}{{tenant="{tenant}", model="m", outcome="{outcome}"}}': each
        for outcome, each in values.items()
    }


def _limited(refused: str, served: str) -> Series:
    labels = 'tenant="acme", limit_type="tpm", limit="tpm"'
    return _requests({"ok": served}) | {f"weir_gateway_limited_total{{{labels}}}": refused}


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
        Case("65m", _slo("0+2x90", "0+8x90"), (_TTFT,), not_yet="3m"),
        Case("65m", _slo("0+5x90", "0+5x90")),
        # It is over: the short window is better.
        Case("70m", _slo("0+1x60 60+5x30", "0+9x60 540+5x30")),
        # It has begun: the long window is still good.
        Case("65m", _slo("0+6x55 330+1x30", "0+4x55 220+9x30")),
        # 12 requests an hour are too few, 30 are not.
        Case("65m", _slo("0x90", "0+0.2x90")),
        Case("65m", _slo("0x90", "0+0.5x90"), (_TTFT,)),
        # Half may miss: more than nine of ten must, as a burn of 14.4 cannot be.
        Case("65m", _slo("0+0.5x90", "0+9.5x90", "0.5"), (_TTFT,)),
        Case("67m", _slo("0+0.5x60 30+2x30", "0+9.5x60 570+8x30", "0.5")),
        Case("67m", _slo("0+2x60 120+0.5x30", "0+8x60 480+9.5x30", "0.5")),
    ),
    "TokenweirSloBurn": (
        # 2 of 5 miss: a burn of 8.
        Case("70m", _slo("0+6x90", "0+4x90"), (_TTFT,), not_yet="12m"),
        Case("70m", _slo("0+8x90", "0+2x90")),
        Case("95m", _slo("0+6x60 360+8x60", "0+4x60 240+2x60")),
        Case("91m", _slo("0+8x60 480+6x60", "0+2x60 120+4x60")),
        Case("70m", _slo("0x90", "0+0.2x90")),
        Case("70m", _slo("0x90", "0+0.5x90"), (_TTFT,)),
        # Half may miss: more than three of four must.
        Case("70m", _slo("0+1.5x90", "0+8.5x90", "0.5"), (_TTFT,)),
        Case("91m", _slo("0+1.5x60 90+4x60", "0+8.5x60 510+6x60", "0.5")),
        Case("100m", _slo("0+4x60 240+1.5x60", "0+6x60 360+8.5x60", "0.5")),
    ),
    "TokenweirSloBurnSlow": (
        # 1 of 10 misses: a burn of 2.
        Case("80m", _slo("0+90x90", "0+10x90"), (_TTFT,), not_yet="50m"),
        Case("80m", _slo("0+96x90", "0+4x90")),
    ),
    "TokenweirServiceDown": (
        Case(
            "5m",
            _up("worker", "1 1 0x10"),
            ({"job": "tokenweir", "service": "worker", "instance": "a:1"},),
            not_yet="3m",
        ),
        # A restart is no alert.
        Case("5m", _up("worker", "1 1 1 0 1x10")),
    ),
    "TokenweirGatewayErrors": (
        Case("20m", _requests({"ok": "0+98x30", "error": "0+2x30"}), ({},), "4m"),
        Case("20m", _requests({"ok": "0+995x30", "error": "0+5x30", "cancelled": "0+90x30"})),
    ),
    "TokenweirShed": (
        Case("25m", _requests({"ok": "0+90x30", "shed": "0+10x30"}), ({},), "9m"),
        Case("25m", _requests({"ok": "0+96x30", "shed": "0+4x30"})),
    ),
    "TokenweirTenantLimited": (
        Case("50m", _limited("0+30x60", "0+10x60"), ({"tenant": "acme"},), "25m"),
        Case("50m", _limited("0+10x60", "0+3x60"), ({"tenant": "acme"},)),
        # Never served at all.
        Case("50m", _limited("0+30x60", "0x60"), ({"tenant": "acme"},)),
        Case("50m", _limited("0+15x60", "0+10x60")),
        # Often, of few.
        Case("50m", _limited("0+4x60", "0+1x60")),
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
            "10m",
        ),
        Case(
            "30m",
            _one("weir_tls_certificate_expiry_seconds", f"{15 * _DAY}x60", **_GATEWAY)
            | _one("weir_edge_tls_certificate_expiry_seconds", f"{90 * _DAY}x60", **_GATEWAY),
        ),
    ),
    "TokenweirQueueGrowing": (
        Case("30m", _one("weir_scheduler_queue_depth", "0+2x40", tenant="acme", reason="no_slot"),
             ({},), "15m"),
        # Long and steady.
        Case("30m", _one("weir_scheduler_queue_depth", "50x40", tenant="acme", reason="no_slot")),
        # Short and growing.
        Case("30m", _one("weir_scheduler_queue_depth", "0+0.5x40", tenant="a", reason="no_slot")),
    ),
    "TokenweirNoWorker": (
        Case("5m", _one("weir_scheduler_workers", "1x2 0x10", state="ready", instance="s:1"),
             ({},), "3m"),
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
        Case("5m", _one("weir_worker_registered", "0x10", **_WORKER), (_WORKER,), "1m"),
        Case("5m", _one("weir_worker_registered", "0x2 1x10", **_WORKER)),
    ),
    "TokenweirNoActiveScheduler": (
        Case("5m", _one("weir_scheduler_active", "1x2 0x10", instance="s:1"), ({},), "3m"),
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
            "0m",
        ),
        Case(
            "5m",
            _one("weir_scheduler_active", "1x10", instance="s:1")
            | _one("weir_scheduler_active", "0x10", instance="s:2"),
        ),
    ),
    "TokenweirEngineSilent": (
        Case("5m", _one("weir_worker_engine_up", "1 0x10", **_WORKER), (_WORKER,), "1m"),
        Case("5m", _one("weir_worker_engine_age_seconds", "50x10", **_WORKER), (_WORKER,)),
        Case(
            "5m",
            _one("weir_worker_engine_up", "1x10", **_WORKER)
            | _one("weir_worker_engine_age_seconds", "20x10", **_WORKER),
        ),
    ),
    "TokenweirStepsFail": (
        Case("9m", _one("weir_worker_failed_steps_total", "0x5 1x10", **_WORKER), (_WORKER,)),
        Case("9m", _one("weir_worker_failed_steps_total", "7x20", **_WORKER)),
    ),
    "TokenweirKvFull": (
        Case("20m", _kv("98x30", "2x30"), (_WORKER,), "5m"),
        # Sessions hold it, and yield.
        Case("20m", _kv("98x30", "2x30", pinned="50x30")),
        Case("20m", _kv("90x30", "10x30")),
    ),
    "TokenweirPreemptions": (
        Case("30m", _one("weir_worker_preemptions_total", "0+1x40", **_WORKER), (_WORKER,), "12m"),
        Case("30m", _one("weir_worker_preemptions_total", "0+0.4x40", **_WORKER)),
    ),
    "TokenweirHitRateFell": (
        # From 60 % to 20 %.
        Case("150m", _cache("0+600x90 54200+200x90", "0+1000x200"), (_WORKER,), "110m"),
        Case("150m", _cache("0+600x90 54400+400x90", "0+1000x200")),
        # From 20 % to 5 %; from 5 % to nothing.
        Case("150m", _cache("0+200x90 18050+50x90", "0+1000x200"), (_WORKER,)),
        Case("115m", _cache("0+50x90 4500x90", "0+1000x200")),
        # Seven tokens a second are looked up.
        Case("150m", _cache("0+252x90 22680x90", "0+420x200")),
    ),
    "TokenweirDeviceTaken": (
        Case(
            "15m",
            _one("weir_worker_device_utilisation_ratio", "0.7x20", by="foreign", **_WORKER),
            ({"by": "foreign", **_WORKER},),
            "5m",
        ),
        Case(
            "15m",
            _one("weir_worker_device_utilisation_ratio", "0.3x20", by="foreign", **_WORKER)
            | _one("weir_worker_device_utilisation_ratio", "1x20", by="all", **_WORKER),
        ),
    ),
    "TokenweirStoreDown": (
        Case("5m", _one("weir_ratelimiter_mode", "0 1x10", **_LIMITER), (_LIMITER,), "1m"),
        Case("5m", _one("weir_ratelimiter_mode", "0x10", **_LIMITER)),
    ),
    "TokenweirStoreStateLost": (
        Case("9m", _one("weir_ratelimiter_store_states_lost_total", "0x5 1x10", **_LIMITER),
             (_LIMITER,)),
        Case("9m", _one("weir_ratelimiter_store_states_lost_total", "2x20", **_LIMITER)),
    ),
    "TokenweirLedgerLag": (
        Case("20m", _one("weir_ratelimiter_ledger_lag_seconds", "500x30", **_LIMITER),
             (_LIMITER,), "4m"),
        Case("20m", _one("weir_ratelimiter_ledger_lag_seconds", "250x30", **_LIMITER)),
    ),
    "TokenweirLedgerErrors": (
        Case(
            "25m",
            _one(_LEDGER_ERRORS, "0x5 1+1x30", cause="database", **_LIMITER),
            ({"cause": "database", **_LIMITER},),
            "10m",
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
        Case("10m", _one("weir_gateway_unheard_calls", "3x20", **_GATEWAY), (_GATEWAY,), "4m"),
        Case("10m", _one("weir_gateway_unheard_calls", "3x4 0x20", **_GATEWAY)),
    ),
}  # fmt: skip
