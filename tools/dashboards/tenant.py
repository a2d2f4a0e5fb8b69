"""What one tenant gets: load, times it waits, what it is refused, its share."""

from tools.dashboards.panels import TENANT, TOKENS_PER_S, Dashboard, Panel, Query, Row

_OF_TENANT = 'tenant=~"$tenant"'
_NAMES = (
    "The busiest tenants have their name, the rest are `other`; exact counts come from the API and "
    "the ledger."
)

_LOAD = Row(
    "Load",
    (
        Panel(
            "Requests",
            f"Accepted requests that ended. {_NAMES}",
            "reqps",
            (
                Query(
                    "sum by (tenant) "
                    f"(rate(weir_gateway_requests_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Output tokens",
            "Made for the tenant.",
            TOKENS_PER_S,
            (
                Query(
                    "sum by (tenant) (rate(weir_gateway_tokens_total"
                    f'{{{_OF_TENANT}, direction="output"}}[$__rate_interval]))',
                    "{{tenant}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Input tokens",
            "Prompts, cached parts included.",
            TOKENS_PER_S,
            (
                Query(
                    "sum by (tenant) (rate(weir_gateway_tokens_total"
                    f'{{{_OF_TENANT}, direction="input"}}[$__rate_interval]))',
                    "{{tenant}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Outcomes",
            "How its requests end.",
            "reqps",
            (
                Query(
                    "sum by (tenant, outcome) "
                    f"(rate(weir_gateway_requests_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}} {{outcome}}",
                ),
            ),
        ),
    ),
)

_WAITING = Row(
    "What holds it up",
    (
        Panel(
            "Answered 429",
            "By the limit that it did not fit in.",
            "reqps",
            (
                Query(
                    "sum by (tenant, limit_type, limit) "
                    f"(rate(weir_gateway_limited_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}} {{limit_type}} {{limit}}",
                ),
            ),
            alerts=("TokenweirTenantLimited",),
        ),
        Panel(
            "Waiting requests",
            "By the reason for which they wait.",
            "short",
            (
                Query(
                    f"sum by (tenant, reason) (weir_scheduler_queue_depth{{{_OF_TENANT}}})",
                    "{{tenant}} {{reason}}",
                    rare=True,
                ),
            ),
            alerts=("TokenweirQueueGrowing",),
        ),
        Panel(
            "Refused by the queue",
            "Because it was full, or would have been too late.",
            "reqps",
            (
                Query(
                    "sum by (tenant, reason) "
                    f"(rate(weir_scheduler_rejections_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}} {{reason}}",
                    rare=True,
                ),
            ),
            alerts=("TokenweirShed",),
        ),
    ),
)

_SHARE = Row(
    "Its share",
    (
        Panel(
            "Service received",
            "Weighted tokens that the fair queue has charged. Tenants that wait all the time get "
            "it in the proportion of their weights.",
            TOKENS_PER_S,
            (
                Query(
                    "sum by (tenant) "
                    f"(rate(weir_scheduler_service_tokens_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Part of all service",
            "Of what all tenants got together.",
            "percentunit",
            (
                Query(
                    "sum by (tenant) "
                    f"(rate(weir_scheduler_service_tokens_total{{{_OF_TENANT}}}[$__rate_interval]))"
                    " / scalar(sum(rate(weir_scheduler_service_tokens_total[$__rate_interval])))",
                    "{{tenant}}",
                ),
            ),
            top=1,
        ),
        Panel(
            "Targets kept",
            "Of the last hour.",
            "percentunit",
            (
                Query(
                    f"tenant_objective:slo_attainment:ratio_rate1h{{{_OF_TENANT}}}",
                    "{{tenant}} {{objective}}",
                ),
            ),
            top=1,
            alerts=("TokenweirSloBurnFast", "TokenweirSloBurnSlow"),
        ),
    ),
)

TENANTS = Dashboard(
    "tokenweir-tenant",
    "Tokenweir: tenants",
    "What a tenant gets, and what holds it up.",
    (TENANT,),
    (_LOAD, _WAITING, _SHARE),
)
