"""Limits and accounts: who is refused by which limit, and whether the accounts hold."""

from tools.dashboards.panels import TENANT, TOKENS, TOKENS_PER_S, Dashboard, Panel, Query, Row

_OF_TENANT = 'tenant=~"$tenant"'

_REFUSALS = Row(
    "Who is refused",
    (
        Panel(
            "Answered 429",
            "Once for each limit that a request did not fit in, as the gateway told it.",
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
            "Refusals by layer",
            "Cluster, model, tenant or user, at the ratelimiter.",
            "cps",
            (
                Query(
                    "sum by (tenant, limit_type, layer) "
                    f"(rate(weir_ratelimiter_refusals_total{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}} {{limit_type}} {{layer}}",
                    rare=True,
                ),
            ),
        ),
        Panel(
            "Would have been refused",
            "By limits in shadow mode.",
            "cps",
            (
                Query(
                    "sum by (tenant, limit_type, layer) "
                    "(rate(weir_ratelimiter_shadow_refusals_total"
                    f"{{{_OF_TENANT}}}[$__rate_interval]))",
                    "{{tenant}} {{limit_type}} {{layer}}",
                    rare=True,
                ),
            ),
        ),
        Panel(
            "Run in another form",
            "Instead of being refused.",
            "reqps",
            (
                Query(
                    "sum by (change) (rate(weir_gateway_degradations_total[$__rate_interval]))",
                    "{{change}}",
                    rare=True,
                ),
            ),
        ),
        Panel(
            "Decisions",
            "By operation and outcome.",
            "cps",
            (
                Query(
                    "sum by (operation, outcome) "
                    "(rate(weir_ratelimiter_decisions_total[$__rate_interval]))",
                    "{{operation}} {{outcome}}",
                ),
            ),
        ),
        Panel(
            "Charged",
            "Tokens of settled requests.",
            TOKENS_PER_S,
            (
                Query(
                    "sum by (kind) (rate(weir_ratelimiter_charged_tokens_total[$__rate_interval]))",
                    "{{kind}}",
                ),
            ),
            stacked=True,
        ),
    ),
)

_HELD = Row(
    "What is held",
    (
        Panel(
            "Reservations and leases",
            "0 when everything is at rest.",
            "short",
            (
                Query("sum(weir_ratelimiter_open_reservations)", "open reservations"),
                Query("sum(weir_ratelimiter_held_leases)", "concurrency leases"),
            ),
        ),
        Panel(
            "Tokens held",
            "By open reservations, each once.",
            TOKENS,
            (Query("sum(weir_ratelimiter_held_tokens)", "tokens"),),
        ),
        Panel(
            "Debt",
            "Units owed to buckets: what ran beyond a limit, bounded and recorded.",
            "short",
            (Query("sum(weir_ratelimiter_debt_units)", "units"),),
        ),
        Panel(
            "Left over",
            "Settlements left to the sweep, and calls repeated until they are heard.",
            "short",
            (
                Query("sum(increase(weir_gateway_unsettled_total[1h]))", "left in the last hour"),
                Query("sum(weir_gateway_unheard_calls)", "repeated"),
            ),
            alerts=("TokenweirUnsettled", "TokenweirUnheardCalls"),
        ),
        Panel(
            "Settled twice, differently",
            "The first stands.",
            "cps",
            (Query("sum(rate(weir_ratelimiter_settle_conflicts_total[$__rate_interval]))", "all"),),
        ),
        Panel(
            "Journal",
            "On disk.",
            "bytes",
            (Query("weir_ratelimiter_journal_bytes", "{{instance}}"),),
        ),
    ),
)

_LEDGER = Row(
    "Ledger and store",
    (
        Panel(
            "Behind",
            "Age of the oldest event without a row.",
            "s",
            (Query("max by (instance) (weir_ratelimiter_ledger_lag_seconds)", "{{instance}}"),),
            alerts=("TokenweirLedgerLag",),
        ),
        Panel(
            "Events and rows",
            "Waiting events, and rows written a second.",
            "short",
            (
                Query("sum(weir_ratelimiter_ledger_lag_events)", "events that wait"),
                Query(
                    "sum by (kind) (rate(weir_ratelimiter_ledger_rows_total[$__rate_interval]))",
                    "rows {{kind}}",
                ),
            ),
            alerts=("TokenweirLedgerLag",),
        ),
        Panel(
            "Failures",
            "Of the database or the store they are tried again; rejected ones are set aside.",
            "cps",
            (
                Query(
                    "sum by (cause) (rate(weir_ratelimiter_ledger_errors_total[$__rate_interval]))",
                    "{{cause}}",
                ),
            ),
            alerts=("TokenweirLedgerErrors", "TokenweirLedgerRejected"),
        ),
        Panel(
            "Limits enforced by share",
            "1 while the shared store is away and each replica keeps its share of the limits.",
            "short",
            (Query("weir_ratelimiter_mode", "{{instance}}", rare=True),),
            top=1,
            alerts=("TokenweirStoreDown", "TokenweirStoreStateLost"),
        ),
        Panel(
            "Decided meanwhile",
            "Decisions on a share, and what the store has still to be told.",
            "short",
            (
                Query(
                    "sum by (operation) "
                    "(rate(weir_ratelimiter_degraded_decisions_total[$__rate_interval]))",
                    "{{operation}}",
                    rare=True,
                ),
                Query("sum(weir_ratelimiter_pending_replays)", "to be told", rare=True),
            ),
            alerts=("TokenweirStoreDown",),
        ),
        Panel(
            "Edits of the directory that were refused",
            "The last good version stays.",
            "short",
            (Query("sum(increase(weir_gateway_directory_refused_total[1h]))", "of an hour"),),
            alerts=("TokenweirDirectoryRefused",),
        ),
    ),
)

LIMITS = Dashboard(
    "tokenweir-limits",
    "Tokenweir: limits and accounts",
    "Who is refused by which limit, and whether the accounts hold.",
    (TENANT,),
    (_REFUSALS, _HELD, _LEDGER),
)
