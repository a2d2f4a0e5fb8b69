"""The first page to look at: is it well, how fast is it, what does it do."""

from tools.dashboards.panels import (
    MODEL,
    TOKENS,
    TOKENS_PER_S,
    Dashboard,
    Panel,
    Query,
    Row,
    quantiles,
)

_OF_MODEL = 'model=~"$model"'

_NOW = Row(
    "Now",
    (
        Panel(
            "Alerts",
            "Alerts of Tokenweir that fire.",
            "short",
            (Query('count(ALERTS{alertname=~"Tokenweir.*", alertstate="firing"}) or vector(0)'),),
            kind="stat",
            width=4,
        ),
        Panel(
            "Requests",
            "Accepted requests that ended, a second.",
            "reqps",
            (Query(f"sum(rate(weir_gateway_requests_total{{{_OF_MODEL}}}[$__rate_interval]))"),),
            kind="stat",
            width=4,
        ),
        Panel(
            "Output",
            "Tokens made, a second.",
            TOKENS_PER_S,
            (
                Query(
                    f'sum(rate(weir_gateway_tokens_total{{{_OF_MODEL}, direction="output"}}'
                    "[$__rate_interval]))"
                ),
            ),
            kind="stat",
            width=4,
        ),
        Panel(
            "In flight",
            "Requests between arrival and end, over all gateways.",
            "short",
            (Query("sum(weir_gateway_requests_in_flight)"),),
            kind="stat",
            width=4,
        ),
        Panel(
            "Refused",
            "Of all requests that came, the part that was not let in.",
            "percentunit",
            (Query("tokenweir:refused:ratio_rate5m", rare=True),),
            kind="stat",
            width=4,
            alerts=("TokenweirTenantLimited",),
        ),
        Panel(
            "Workers ready",
            "As the active scheduler sees them.",
            "short",
            (Query('max(weir_scheduler_workers{state="ready"})'),),
            kind="stat",
            width=4,
            alerts=("TokenweirNoWorker", "TokenweirWorkerLost"),
        ),
    ),
)

_TIMES = Row(
    "How fast",
    (
        Panel(
            "Time to first token",
            "From arrival at the gateway. Points are traces: a slow one says where its time went.",
            "s",
            quantiles("time_to_first_token", "model", _OF_MODEL),
            alerts=("TokenweirSloBurnFast",),
        ),
        Panel(
            "End to end",
            "From arrival at the gateway to the last token.",
            "s",
            quantiles("end_to_end_latency", "model", _OF_MODEL),
        ),
        Panel(
            "Speed of an answer",
            "Output tokens per second after the first one; of 100 requests 5 are slower than p5.",
            TOKENS_PER_S,
            quantiles("tokens_per_second", "model", _OF_MODEL, parts=(0.05, 0.5, 0.95, 0.99)),
        ),
        Panel(
            "Wait in the queue",
            "Until a worker was chosen.",
            "s",
            quantiles(
                "weir_scheduler_queue_time_seconds", "model", f'{_OF_MODEL}, exit="dispatched"'
            ),
            alerts=("TokenweirQueueGrowing",),
        ),
        Panel(
            "Waiting requests",
            "By the reason for which they wait.",
            "short",
            (
                Query("tokenweir:queue_depth:sum", "all"),
                Query("sum by (reason) (weir_scheduler_queue_depth)", "{{reason}}", rare=True),
            ),
            alerts=("TokenweirQueueGrowing", "TokenweirShed"),
        ),
        Panel(
            "Time per output token",
            "Mean of each request, by the name of the semantic conventions.",
            "s",
            quantiles(
                "gen_ai_server_time_per_output_token",
                "gen_ai_request_model",
                'gen_ai_request_model=~"$model"',
            ),
        ),
    ),
)

_WORK = Row(
    "How much",
    (
        Panel(
            "Requests by outcome",
            "Accepted requests that ended. `error` is a fault of the service, `shed` was given up "
            "in the queue.",
            "reqps",
            (
                Query(
                    "sum by (outcome) "
                    f"(rate(weir_gateway_requests_total{{{_OF_MODEL}}}[$__rate_interval]))",
                    "{{outcome}}",
                ),
            ),
            stacked=True,
            alerts=("TokenweirGatewayErrors", "TokenweirShed"),
        ),
        Panel(
            "Tokens",
            "Input and output of ended requests.",
            TOKENS_PER_S,
            (
                Query(
                    "sum by (model, direction) "
                    f"(rate(weir_gateway_tokens_total{{{_OF_MODEL}}}[$__rate_interval]))",
                    "{{model}} {{direction}}",
                ),
            ),
        ),
        Panel(
            "Refused by reason",
            "Before they were accepted.",
            "reqps",
            (
                Query(
                    "sum by (reason) (rate(weir_gateway_refused_total[$__rate_interval]))",
                    "{{reason}}",
                    rare=True,
                ),
            ),
            stacked=True,
            alerts=("TokenweirTenantLimited",),
        ),
        Panel(
            "Length of prompts",
            "When it rises, so does the time to the first token of everybody.",
            TOKENS,
            quantiles("weir_gateway_prompt_tokens", "model", _OF_MODEL),
        ),
        Panel(
            "Length of answers",
            "Output tokens of a request.",
            TOKENS,
            quantiles("weir_gateway_output_tokens", "model", _OF_MODEL),
        ),
        Panel(
            "Offline work",
            "Attempts at jobs that run here.",
            "short",
            (Query("sum(weir_gateway_jobs_running)", "jobs"),),
        ),
    ),
)

_PROCESSES = Row(
    "Processes",
    (
        Panel(
            "Processes that answer",
            "1: it was scraped.",
            "short",
            (Query('sum by (service) (up{job="tokenweir"})', "{{service}}"),),
            alerts=("TokenweirServiceDown",),
        ),
        Panel(
            "CPU",
            "Cores in use. A gateway or scheduler near 1 is full: it has one event loop.",
            "short",
            (
                Query(
                    "sum by (service, instance) "
                    '(rate(process_cpu_seconds_total{job="tokenweir"}[$__rate_interval]))',
                    "{{service}} {{instance}}",
                ),
            ),
        ),
        Panel(
            "Memory",
            "Resident.",
            "bytes",
            (
                Query(
                    'sum by (service, instance) (process_resident_memory_bytes{job="tokenweir"})',
                    "{{service}} {{instance}}",
                ),
            ),
        ),
        Panel(
            "RPCs",
            "Calls that ended, by service.",
            "reqps",
            (
                Query(
                    "sum by (grpc_service) (rate(grpc_server_handled_total[$__rate_interval]))",
                    "{{grpc_service}}",
                ),
            ),
        ),
        Panel(
            "Duration of RPCs",
            "95th percentile of calls that are no streams.",
            "s",
            quantiles(
                "grpc_server_handling_seconds", "grpc_service", 'grpc_type="unary"', parts=(0.95,)
            ),
        ),
        Panel(
            "Schedulers",
            "The active ones are 1 together.",
            "short",
            (
                Query("sum(weir_scheduler_active)", "active"),
                Query("max(weir_scheduler_leader_epoch)", "term"),
            ),
            alerts=("TokenweirNoActiveScheduler", "TokenweirSeveralActiveSchedulers"),
        ),
    ),
)

OVERVIEW = Dashboard(
    "tokenweir-overview",
    "Tokenweir: overview",
    "Is it well, how fast is it, what does it do.",
    (MODEL,),
    (_NOW, _TIMES, _WORK, _PROCESSES),
)
