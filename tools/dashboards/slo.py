"""Targets of tenants: how they are kept, how fast their budget goes, what would help."""

from tools.dashboards.panels import MODEL, TENANT, Dashboard, Panel, Query, Row

_OF_TENANT = 'tenant=~"$tenant"'
_OF_MODEL = 'model=~"$model"'
_WINDOWS = ("5m", "30m", "1h", "6h", "3d")

_KEPT = Row(
    "How targets are kept",
    (
        Panel(
            "Kept in the last hour",
            "Part of the interactive requests that kept the target, and the part that is to.",
            "percentunit",
            (
                Query(
                    f"tenant_objective:slo_attainment:ratio_rate1h{{{_OF_TENANT}}}",
                    "{{tenant}} {{objective}}",
                ),
                Query(
                    f"max by (tenant, objective) (weir_scheduler_slo_target_ratio{{{_OF_TENANT}}})",
                    "{{tenant}} {{objective}} wanted",
                ),
            ),
            top=1,
            width=12,
            alerts=("TokenweirSloBurnFast", "TokenweirSloBurn", "TokenweirSloBurnSlow"),
        ),
        Panel(
            "Burn rate by window",
            "Requests that missed, over those that may. At 1 the budget just lasts; an alert fires "
            "when a long and a short window are above its bound.",
            "short",
            tuple(
                Query(
                    f"tenant_objective:slo_missed:ratio_rate{window}{{{_OF_TENANT}}}"
                    " / on (tenant, objective) tenant_objective:slo_allowed:ratio",
                    f"{{{{tenant}}}} {{{{objective}}}} {window}",
                )
                for window in _WINDOWS
            ),
            width=12,
            alerts=("TokenweirSloBurnFast", "TokenweirSloBurn", "TokenweirSloBurnSlow"),
        ),
        Panel(
            "Budget of three days that is left",
            "Below 0 the target was missed over three days.",
            "percentunit",
            (
                Query(
                    f"1 - tenant_objective:slo_missed:ratio_rate3d{{{_OF_TENANT}}}"
                    " / on (tenant, objective) tenant_objective:slo_allowed:ratio",
                    "{{tenant}} {{objective}}",
                ),
            ),
        ),
        Panel(
            "Requests that count",
            "Kept and missed; what was refused for want of room has missed.",
            "reqps",
            (
                Query(
                    "sum by (tenant, objective, outcome) "
                    f"(rate(weir_scheduler_slo_requests_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}} {{objective}} {{outcome}}",
                ),
            ),
        ),
        Panel(
            "As the scheduler sees it",
            "Attainment and burn rate of its own windows, of which it sheds.",
            "short",
            (
                Query(
                    f"max by (tenant, objective, window) "
                    f"(weir_scheduler_slo_attainment{{{_OF_TENANT}}})",
                    "{{tenant}} {{objective}} {{window}} kept",
                ),
                Query(
                    f"max by (tenant, objective, window) "
                    f"(weir_scheduler_slo_burn_rate{{{_OF_TENANT}}})",
                    "{{tenant}} {{objective}} {{window}} burn",
                ),
            ),
        ),
    ),
)

_CAUSES = Row(
    "Where the time goes, and what would help",
    (
        Panel(
            "Predicted wait",
            "Of a request that comes now, of a tenant of which nothing waits.",
            "s",
            (
                Query(
                    "max by (model, pool, class, length) "
                    f"(weir_scheduler_predicted_wait_seconds{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} {{class}} {{length}}",
                    rare=True,
                ),
            ),
            alerts=("TokenweirQueueGrowing",),
        ),
        Panel(
            "Longest wait, and 95th percentile",
            "Of interactive requests.",
            "s",
            (
                Query(
                    "max by (model, pool) "
                    f"(weir_scheduler_scaling_oldest_wait_seconds{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} longest",
                ),
                Query(
                    "max by (model, pool) "
                    f"(weir_scheduler_scaling_queue_time_p95_seconds{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} p95",
                ),
            ),
        ),
        Panel(
            "Workers there are, are wanted, are needed",
            "Wanted is the recommendation, needed what the load asks for.",
            "short",
            (
                Query(
                    f"max by (model, pool) (weir_scheduler_scaling_workers{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} there",
                ),
                Query(
                    f"max by (model, pool) (weir_scheduler_scaling_wanted_workers{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} wanted",
                ),
                Query(
                    f"max by (model, pool) (weir_scheduler_scaling_needed_workers{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} needed",
                ),
            ),
        ),
        Panel(
            "Running requests and places",
            "Answers that are made at once, and that may be.",
            "short",
            (
                Query(
                    "max by (model, pool) "
                    f"(weir_scheduler_scaling_running_requests{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} running",
                ),
                Query(
                    f"max by (model, pool) (weir_scheduler_scaling_request_slots{{{_OF_MODEL}}})",
                    "{{model}} {{pool}} places",
                ),
            ),
        ),
        Panel(
            "Attempts that began again",
            "By the reason for which the one before ended.",
            "cps",
            (
                Query(
                    "sum by (reason) (rate(weir_scheduler_requeues_total[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            alerts=("TokenweirWorkerLost",),
        ),
        Panel(
            "Retry-After kept",
            "Of the requests that came back when they were told to.",
            "cps",
            (
                Query(
                    "sum by (outcome) (rate(weir_scheduler_retry_after_total[$__rate_interval]))",
                    "{{outcome}}",
                ),
            ),
        ),
    ),
)

SLO = Dashboard(
    "tokenweir-slo",
    "Tokenweir: targets",
    "How the targets of tenants are kept, how fast their budget goes, what would help.",
    (TENANT, MODEL),
    (_KEPT, _CAUSES),
)
