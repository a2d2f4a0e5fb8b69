"""Workers: where the KV memory is, what the cache finds, where a step's time goes."""

from tools.dashboards.panels import (
    TOKENS,
    TOKENS_PER_S,
    WORKER,
    Dashboard,
    Panel,
    Query,
    Row,
    quantiles,
)

_HERE = 'instance=~"$worker"'

_KV = Row(
    "KV memory",
    (
        Panel(
            "Blocks",
            "Free, cached (findable, held by nobody), held. The sum never changes.",
            "short",
            (
                Query(
                    f"sum by (instance, state) (weir_worker_kv_blocks{{{_HERE}}})",
                    "{{instance}} {{state}}",
                ),
            ),
            stacked=True,
            alerts=("TokenweirKvFull",),
        ),
        Panel(
            "Held by requests",
            "Of all blocks, those that running requests hold. Near 1, new ones wait and running "
            "ones are pre-empted.",
            "percentunit",
            (Query(f"instance:kv_use:ratio{{{_HERE}}}", "{{instance}}"),),
            top=1,
            alerts=("TokenweirKvFull",),
        ),
        Panel(
            "Bytes held",
            "By requests and sessions; and blocks that sessions alone keep.",
            "bytes",
            (Query(f"kv_cache_bytes_used{{{_HERE}}}", "{{instance}}"),),
        ),
        Panel(
            "Evictions",
            "Findable blocks given up, for reuse or by age. Many, with a falling hit rate: the "
            "cache is too small.",
            "cps",
            (
                Query(
                    f"rate(kv_cache_evictions_total{{{_HERE}}}[$__rate_interval])", "{{instance}}"
                ),
            ),
        ),
        Panel(
            "Pre-emptions",
            "Sequences whose KV memory was taken; they are computed again.",
            "cps",
            (
                Query(
                    f"rate(weir_worker_preemptions_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}}",
                ),
                Query(
                    f"rate(weir_worker_recomputed_tokens_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} tokens computed again",
                ),
            ),
            alerts=("TokenweirPreemptions",),
        ),
        Panel(
            "Stranded and pinned",
            "Places in held blocks that no token fills; blocks that sessions alone keep.",
            "short",
            (
                Query(f"weir_worker_kv_stranded_tokens{{{_HERE}}}", "{{instance}} stranded tokens"),
                Query(f"weir_worker_kv_pinned_blocks{{{_HERE}}}", "{{instance}} pinned blocks"),
            ),
        ),
    ),
)

_CACHE = Row(
    "What the cache finds",
    (
        Panel(
            "Hit rate of 5 minutes",
            "Tokens found, of those looked up: in the tenants' prefixes, and in sessions.",
            "percentunit",
            (
                Query(f"kv_cache_hit_rate_prefix{{{_HERE}}}", "{{instance}} prefixes"),
                Query(f"kv_cache_hit_rate_session{{{_HERE}}}", "{{instance}} sessions"),
            ),
            top=1,
            alerts=("TokenweirHitRateFell",),
        ),
        Panel(
            "Hit rate of 15 minutes",
            "Both together, from the counters.",
            "percentunit",
            (Query(f"instance:kv_hit_rate:ratio_rate15m{{{_HERE}}}", "{{instance}}"),),
            top=1,
            alerts=("TokenweirHitRateFell",),
        ),
        Panel(
            "Tokens looked up and found",
            "What the rates are made of.",
            TOKENS_PER_S,
            (
                Query(
                    f"rate(kv_cache_prefix_queries_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} prefixes, looked up",
                ),
                Query(
                    f"rate(kv_cache_prefix_hits_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} prefixes, found",
                ),
                Query(
                    f"rate(kv_cache_session_queries_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} sessions, looked up",
                ),
                Query(
                    f"rate(kv_cache_session_hits_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} sessions, found",
                ),
            ),
        ),
    ),
)

_STEPS = Row(
    "Steps",
    (
        Panel(
            "Prefill",
            "From the first prompt token scheduled to the first token sampled.",
            "ms",
            quantiles("prefill_latency_ms", "instance", _HERE),
        ),
        Panel(
            "Decode, per token",
            "Mean of each attempt.",
            "ms",
            quantiles("decode_latency_per_token_ms", "instance", _HERE),
        ),
        Panel(
            "Time by phase",
            "Seconds of step time a second: where the device's time goes.",
            "percentunit",
            (
                Query(
                    "sum by (instance, phase) "
                    f"(rate(weir_worker_step_seconds_by_phase_total{{{_HERE}}}[$__rate_interval]))",
                    "{{instance}} {{phase}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Duration of a step",
            "All running requests wait for the slowest part of it.",
            "s",
            quantiles("weir_worker_step_seconds", "instance", _HERE, parts=(0.5, 0.95, 0.99)),
            alerts=("TokenweirEngineSilent",),
        ),
        Panel(
            "Batch",
            "Mean rows of a step: decodes, and prompt tokens.",
            "short",
            (
                Query(
                    f"rate(weir_worker_decode_rows_total{{{_HERE}}}[$__rate_interval])"
                    f" / rate(weir_worker_steps_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} decode",
                ),
                Query(
                    f"rate(weir_worker_prefill_rows_total{{{_HERE}}}[$__rate_interval])"
                    f" / rate(weir_worker_steps_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} prefill",
                ),
            ),
        ),
        Panel(
            "Requests in the engine",
            "Pre-empted ones wait.",
            "short",
            (
                Query(
                    f"sum by (instance, state) (weir_worker_requests{{{_HERE}}})",
                    "{{instance}} {{state}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Prompt tokens to be computed",
            "Of requests that have begun.",
            TOKENS,
            (Query(f"weir_worker_pending_prefill_tokens{{{_HERE}}}", "{{instance}}"),),
        ),
        Panel(
            "How attempts end",
            "By finish reason.",
            "cps",
            (
                Query(
                    "sum by (reason) "
                    f"(rate(weir_worker_attempts_finished_total{{{_HERE}}}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
        ),
        Panel(
            "Prompt tokens by source",
            "Computed, or read from the cache.",
            TOKENS_PER_S,
            (
                Query(
                    "sum by (instance, source) "
                    f"(rate(weir_worker_prompt_tokens_total{{{_HERE}}}[$__rate_interval]))",
                    "{{instance}} {{source}}",
                ),
            ),
            stacked=True,
        ),
    ),
)

_DEVICE = Row(
    "Device and process",
    (
        Panel(
            "Utilisation",
            "Of the GPU, or of the machine's processors; foreign: by processes that are not the "
            "worker's.",
            "percentunit",
            (
                Query(f"weir_worker_device_utilisation_ratio{{{_HERE}}}", "{{instance}} {{by}}"),
                Query(
                    f"rate(weir_worker_processor_wait_seconds_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} engine waits for a processor",
                    rare=True,
                ),
            ),
            top=1,
            alerts=("TokenweirDeviceTaken",),
        ),
        Panel(
            "Memory",
            "In use by all, by foreign processes, and all there is.",
            "bytes",
            (
                Query(f"weir_worker_device_memory_used_bytes{{{_HERE}}}", "{{instance}} {{by}}"),
                Query(f"weir_worker_device_memory_bytes{{{_HERE}}}", "{{instance}} there is"),
            ),
            alerts=("TokenweirDeviceTaken",),
        ),
        Panel(
            "Engine",
            "Seconds since it was heard of; it is registered, and lives, at 1.",
            "short",
            (
                Query(f"weir_worker_engine_age_seconds{{{_HERE}}}", "{{instance}} silent seconds"),
                Query(f"weir_worker_engine_up{{{_HERE}}}", "{{instance}} lives"),
                Query(f"weir_worker_registered{{{_HERE}}}", "{{instance}} registered"),
            ),
            alerts=("TokenweirEngineSilent", "TokenweirWorkerUnregistered"),
        ),
        Panel(
            "Failed steps",
            "Whose forward pass failed; every request in it ends.",
            "cps",
            (
                Query(
                    f"rate(weir_worker_failed_steps_total{{{_HERE}}}[$__rate_interval])",
                    "{{instance}}",
                ),
            ),
            alerts=("TokenweirStepsFail",),
        ),
        Panel(
            "What is served",
            "Model, version and kind of device.",
            "short",
            (
                Query(
                    f"weir_worker_info{{{_HERE}}}", "{{instance}} {{model}} {{version}} {{profile}}"
                ),
            ),
        ),
        Panel(
            "Streams of gateways",
            "Open now.",
            "short",
            (Query(f"weir_worker_gateway_streams{{{_HERE}}}", "{{instance}}"),),
        ),
    ),
)

WORKERS = Dashboard(
    "tokenweir-worker",
    "Tokenweir: workers and KV",
    "Where the KV memory is, what the cache finds, where a step's time goes.",
    (WORKER,),
    (_KV, _CACHE, _STEPS, _DEVICE),
)
