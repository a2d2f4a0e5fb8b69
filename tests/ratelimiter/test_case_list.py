"""Which tests show that the account handles each known edge case, and each report of another
project's trouble with limits and bills. The tests named here exist.
"""

from pathlib import Path

import pytest

HERE = "tests/ratelimiter/"
EDGES = HERE + "test_edge_cases.py"
NUMBERS = HERE + "test_edge_numbers.py"
IDS = HERE + "test_edge_ids.py"
LIMITS = HERE + "test_edge_limits.py"
WINDOWS = HERE + "test_windows.py"
ADMIN = HERE + "test_administration.py"
REDIS = HERE + "test_redis_store.py"
VALKEY = HERE + "degraded/test_valkey.py"
MACHINE = HERE + "test_account_machine.py"
LEDGER = HERE + "ledger/"
HTTP = "tests/gateway/test_bad_input_http.py"
ONCE = "tests/gateway/idempotency/test_once.py"
DOOR = "tests/gateway/test_openai_door.py"
ENDINGS = "tests/gateway/test_endings.py"
FAILING = "tests/gateway/test_failing_workers.py"
LEAVING = "tests/gateway/test_leaving_clients.py"
CALLER = "tests/gateway/test_caller.py"
E2E = "tests/e2e/"

EDGE_CASES: dict[str, list[str]] = {
    "1 N at once on capacity for one": [
        f"{EDGES}::test_01_concurrent_reserves_on_capacity_for_one",
        f"{HERE}test_parallel.py::test_64_clients_in_4_processes",
        f"{HERE}test_parallel_store.py::test_64_clients_on_one_store",
    ],
    "2 one layer denies": [f"{LIMITS}::test_02_a_layer_that_denies_leaves_the_others_untouched"],
    "3 reserve and settle twice": [
        f"{EDGES}::test_03_reserve_and_settle_twice_in_parallel_charge_once"
    ],
    "4 timeout after commit": [
        f"{EDGES}::test_04_a_timeout_after_commit_and_a_retry_are_one_charge",
        f"{HERE}degraded/test_back.py::test_a_reply_that_was_lost_charges_nothing_twice",
    ],
    "5 settle more than reserved": [
        f"{EDGES}::test_05_settling_more_than_reserved_leaves_debt_in_all_layers"
    ],
    "6 settle less after a refill": [
        f"{EDGES}::test_06_settling_less_after_refill_to_full_stays_at_capacity"
    ],
    "7 refund across a window": [
        f"{EDGES}::test_07_refund_long_after_its_window_is_no_credit",
        f"{WINDOWS}::test_07_a_settlement_after_midnight_belongs_to_the_day_before",
    ],
    "8 clock jumps": [
        f"{EDGES}::test_08_clock_jumps_neither_mint_nor_lock_out",
        f"{EDGES}::test_08_a_lease_outlives_no_jump",
        f"{MACHINE}::test_memory_and_redis_and_the_exact_model_are_equal",
    ],
    "9 hostile numbers": [
        f"{NUMBERS}::test_09_and_10_hostile_numbers_and_sentinels",
        f"{NUMBERS}::test_09_hostile_usage_charges_nothing",
        f"{ADMIN}::test_hostile_extensions_change_nothing",
        f"{ADMIN}::test_hostile_adjustments_are_refused_by_field",
    ],
    "10 sentinels": [f"{NUMBERS}::test_09_and_10_hostile_numbers_and_sentinels"],
    "11 several answers a request": [f"{HTTP}::test_a_bad_field", f"{HTTP}::test_a_bad_completion"],
    "12 bounds of the output": [
        f"{NUMBERS}::test_12_max_tokens_beyond_the_window_names_the_numbers",
        f"{NUMBERS}::test_12_an_estimate_is_capped_by_the_capacity",
        f"{DOOR}::test_the_default_bound_is_reported",
        f"{HTTP}::test_a_bad_field",
    ],
    "13 changed limits": [
        f"{LIMITS}::test_13_limit_lowered_below_use_raised_and_removed",
        f"{LIMITS}::test_13_kind_changed_in_flight",
        f"{MACHINE}::test_random_histories_equal_the_exact_model",
    ],
    "14 hostile ids": [
        f"{IDS}::test_14_hostile_ids_are_refused_by_name",
        f"{IDS}::test_14_ids_with_separators_never_share_a_key",
        f"{ADMIN}::test_hostile_explanations_and_ends_are_refused_by_field",
        f"{REDIS}::test_hostile_ids_share_no_key_and_stay_in_their_slot",
    ],
    "15 one user id, two tenants": [f"{IDS}::test_15_same_user_id_under_two_tenants"],
    "16 suspended, revoked, rotated": [
        f"{LIMITS}::test_16_suspension_and_revocation_with_a_stream_open",
        f"{ENDINGS}::test_a_revocation_ends_open_streams",
        f"{CALLER}::test_a_rotated_key_has_two_secrets_while_they_overlap",
    ],
    "17 kills and outages": [
        f"{E2E}test_kill.py::test_kill_9_three_times_each",
        f"{VALKEY}::test_killed_and_restarted_with_its_file_or_without",
        f"{VALKEY}::test_paused_for_two_seconds",
        f"{VALKEY}::test_two_seconds_of_latency_are_no_worse_than_no_store",
        f"{REDIS}::test_a_server_that_lost_its_scripts_gets_them_once",
        f"{REDIS}::test_a_full_server_refuses_and_keeps_what_it_has",
        f"{REDIS}::test_a_replica_that_only_reads_is_told",
        f"{REDIS}::test_an_error_of_a_script_leaves_nothing_written",
    ],
    "18 zombies": [f"{EDGES}::test_18_a_zombie_gets_no_second_slot"],
    "19 many tenants": [f"{HERE}test_many_tenants.py::test_quiet_tenants_cost_nothing"],
    "20 unknown tenants": [f"{HERE}test_many_tenants.py::test_strangers_leave_no_trace"],
    "21 disconnects": [
        f"{EDGES}::test_21_disconnects_charge_what_ran",
        f"{EDGES}::test_21_disconnect_during_settle_settles_once",
        f"{E2E}test_abort.py::test_aborts_at_random_points_charge_exactly_what_ran",
    ],
    "22 a retry inside": [
        f"{EDGES}::test_22_a_retry_on_another_worker_is_one_reservation",
        f"{FAILING}::test_a_worker_lost_before_the_first_token_is_not_noticed",
    ],
    "23 replays": [
        f"{IDS}::test_23_a_replay_takes_nothing",
        f"{ONCE}::test_every_generating_path_heeds_the_key",
    ],
    "24 batches": [f"{EDGES}::test_24_a_batch_is_settled_line_by_line"],
    "25 shadow": [
        f"{LIMITS}::test_25_a_shadow_limit_counts_and_refuses_nobody",
        f"{WINDOWS}::test_a_shadow_budget_counts_and_refuses_nobody",
    ],
    "26 queue longer than the deadline": [
        f"{EDGES}::test_26_queue_wait_beyond_the_deadline_refunds_whole",
        f"{E2E}test_one_charge.py::test_26_a_wait_beyond_the_deadline_is_refunded_whole",
    ],
    "27 pre-emption": [
        f"{EDGES}::test_27_a_preempted_request_resumes_without_a_second_request",
        f"{E2E}test_one_charge.py::test_27_a_preempted_request_is_counted_and_charged_once",
    ],
    "28 memory equals Redis": [
        f"{MACHINE}::test_memory_and_redis_and_the_exact_model_are_equal",
    ],
    "29 conservation": [
        f"{EDGES}::test_29_settled_and_held_are_debits_less_refunds",
        f"{MACHINE}::test_random_histories_equal_the_exact_model",
    ],
    "30 ledger equals limiter": [
        f"{LEDGER}test_account.py::test_account_and_ledger_agree_after_any_history"
    ],
}

REPORTS: dict[str, list[str]] = {
    "BerriAI/litellm#18730": [f"{EDGES}::test_01_tokens_admitted_never_exceed_the_capacity"],
    "BerriAI/litellm#37001": [f"{HTTP}::test_a_bad_field"],
    "BerriAI/litellm#29193": [f"{NUMBERS}::test_12_an_estimate_is_capped_by_the_capacity"],
    "BerriAI/litellm#20256": [
        f"{EDGES}::test_18_a_zombie_gets_no_second_slot",
        f"{FAILING}::test_a_worker_that_fails_or_refuses_is_replaced",
    ],
    "BerriAI/litellm#40846": [f"{ENDINGS}::test_the_place_is_free_before_the_reply_ends"],
    "BerriAI/litellm#33736": [
        f"{LEAVING}::test_a_client_that_leaves_mid_stream_stops_the_worker",
        f"{E2E}test_abort.py::test_aborts_at_random_points_charge_exactly_what_ran",
    ],
    "BerriAI/litellm#34147": [
        f"{LEAVING}::test_a_client_that_leaves_a_whole_answer_stops_the_worker"
    ],
    "tensorzero/tensorzero#3862": [f"{MACHINE}::test_random_histories_equal_the_exact_model"],
    "tensorzero/tensorzero#3647": [f"{DOOR}::test_a_refusal_by_a_limit_is_a_429_that_says_when"],
    "alibaba/higress#1080": [
        f"{EDGES}::test_03_reserve_and_settle_twice_in_parallel_charge_once",
        f"{EDGES}::test_01_tokens_admitted_never_exceed_the_capacity",
    ],
    "envoyproxy/ratelimit#185": [
        f"{LIMITS}::test_02_a_layer_that_denies_leaves_the_others_untouched",
        f"{LIMITS}::test_13_limit_lowered_below_use_raised_and_removed",
        f"{HERE}test_envoy.py::test_descriptors_together_are_one_request_all_or_nothing",
    ],
    "api7/aisix#688": [f"{ENDINGS}::test_a_stream_holds_its_place_to_its_end"],
    "BerriAI/litellm#9820": [
        f"{CALLER}::test_revocation_and_new_limits_hold_from_the_next_call_on"
    ],
    "BerriAI/litellm#25553": [f"{CALLER}::test_a_raised_limit_takes_effect_at_once"],
    "BerriAI/litellm#34732": [
        f"{WINDOWS}::test_a_budget_is_held_at_reserve_and_charged_at_settle",
        f"{WINDOWS}::test_budgets_fail_closed_while_the_ledger_cannot_be_read",
        f"{HERE}test_many_tenants.py::test_made_up_users_of_a_tenant_have_its_limits_alone",
    ],
    "maximhq/bifrost#2873": [
        f"{HTTP}::test_a_bad_field",
        f"{WINDOWS}::test_an_exhausted_budget_says_when_the_next_window_begins",
    ],
    "vutran1710/PyrateLimiter#182": [
        f"{REDIS}::test_a_server_that_lost_its_scripts_gets_them_once"
    ],
    "express-rate-limit/rate-limit-redis#251": [
        f"{EDGES}::test_04_a_timeout_after_commit_and_a_retry_are_one_charge"
    ],
    "BerriAI/litellm#34633": [
        "tests/core/test_reasons_on_the_wire.py::test_header_values_are_printable_ascii"
    ],
    "BerriAI/litellm#39385": [
        "tests/core/test_logs.py::test_no_prompt_text_is_logged",
        "tests/core/test_logs.py::test_no_secret_is_logged",
        f"{CALLER}::test_bad_keys_are_refused_without_being_quoted",
    ],
    "vllm-project/vllm#4862": [f"{DOOR}::test_browsers_may_call"],
    "BerriAI/litellm#38157": [
        f"{LEDGER}test_pump.py::test_a_kill_between_write_and_acknowledgement_charges_once",
        f"{LEDGER}test_pump.py::test_a_database_that_goes_and_comes_back_loses_nothing",
        "tests/gateway/test_restarts.py::test_a_gateway_that_stops_settles_what_runs",
    ],
    "PostHog/posthog#50542": [
        f"{IDS}::test_15_same_user_id_under_two_tenants",
        f"{NUMBERS}::test_09_and_10_hostile_numbers_and_sentinels",
    ],
    "Kuadrant/kuadrant-operator#2225": [
        f"{LIMITS}::test_02_a_layer_that_denies_leaves_the_others_untouched",
        f"{WINDOWS}::test_budgets_of_all_layers_or_of_none",
    ],
    "grpc/grpc#36193": [
        "tests/core/test_rpc_handlers.py::"
        "test_client_cancel_of_a_waiting_stream_is_cancelled_error_and_finally_may_await"
    ],
}

NAMED = [
    pytest.param(test, id=f"{case.split()[0]} {test.split('::')[1]}")
    for case, tests in (EDGE_CASES | REPORTS).items()
    for test in tests
]


def test_the_list_is_whole() -> None:
    assert [int(case.split()[0]) for case in EDGE_CASES] == list(range(1, 31))
    assert len(REPORTS) == 25


@pytest.mark.parametrize("test", NAMED)
def test_the_test_exists(repo_root: Path, test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (repo_root / path).read_text()
