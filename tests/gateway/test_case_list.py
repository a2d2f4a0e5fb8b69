"""Which tests show that the gateway handles each report of another project's trouble with a front
door, limits and bills. The tests named here exist.
"""

from pathlib import Path

import pytest

HERE = "tests/gateway/"
HTTP = HERE + "test_bad_input_http.py"
DOOR = HERE + "test_openai_door.py"
ENDINGS = HERE + "test_endings.py"
FAILING = HERE + "test_failing_workers.py"
LEAVING = HERE + "test_leaving_clients.py"
CALLER = HERE + "test_caller.py"
CASES = HERE + "test_cases.py"
LIMITER = "tests/ratelimiter/"
EDGES = LIMITER + "test_edge_cases.py"
NUMBERS = LIMITER + "test_edge_numbers.py"
IDS = LIMITER + "test_edge_ids.py"
LIMITS = LIMITER + "test_edge_limits.py"
WINDOWS = LIMITER + "test_windows.py"
REDIS = LIMITER + "test_redis_store.py"
MACHINE = LIMITER + "test_account_machine.py"
PUMP = LIMITER + "ledger/test_pump.py"
SAFETY = "tests/safety/test_no_text_leaves_its_tenant.py"

REPORTS: dict[str, list[str]] = {
    "1 litellm#18730 parallel requests pass the limit": [
        f"{EDGES}::test_01_tokens_admitted_never_exceed_the_capacity"
    ],
    "2 litellm#37001 the smaller of two bounds is reserved": [
        f"{CASES}::test_case_2_litellm_37001_two_bounds_that_differ_are_refused"
    ],
    "3 litellm#29193 a floor above the limit": [
        f"{NUMBERS}::test_12_an_estimate_is_capped_by_the_capacity"
    ],
    "4 litellm#20256 concurrency is never given back": [
        f"{EDGES}::test_18_a_zombie_gets_no_second_slot",
        f"{FAILING}::test_a_worker_that_fails_or_refuses_is_replaced",
    ],
    "5 litellm#40846 the place is held while a log is written": [
        f"{ENDINGS}::test_the_place_is_free_before_the_reply_ends"
    ],
    "6 litellm#33736 streams that are left are not charged": [
        f"{LEAVING}::test_a_client_that_leaves_mid_stream_stops_the_worker",
        "tests/e2e/test_abort.py::test_aborts_at_random_points_charge_exactly_what_ran",
    ],
    "7 litellm#34147 what nobody reads is computed": [
        f"{LEAVING}::test_a_client_that_leaves_a_whole_answer_stops_the_worker"
    ],
    "8 tensorzero#3862 limits matched by position": [
        f"{MACHINE}::test_random_histories_equal_the_exact_model"
    ],
    "9 tensorzero#3647 a limit is told as a fault": [
        f"{DOOR}::test_a_refusal_by_a_limit_is_a_429_that_says_when"
    ],
    "10 higress#1080 charged twice, or not held": [
        f"{EDGES}::test_03_reserve_and_settle_twice_in_parallel_charge_once",
        f"{EDGES}::test_01_tokens_admitted_never_exceed_the_capacity",
    ],
    "11 envoyproxy/ratelimit#185 rejects count": [
        f"{LIMITS}::test_02_a_layer_that_denies_leaves_the_others_untouched",
        f"{LIMITS}::test_13_limit_lowered_below_use_raised_and_removed",
    ],
    "12 aisix#688 a stream's place is free at its start": [
        f"{ENDINGS}::test_a_stream_holds_its_place_to_its_end"
    ],
    "13 litellm#9820 revoked keys work on": [
        f"{CALLER}::test_revocation_and_new_limits_hold_from_the_next_call_on",
        f"{HERE}test_revocation.py::test_open_streams_end_on_both_gateways_charged_for_what_ran",
        f"{CASES}::test_case_13_litellm_34217_keys_of_a_deleted_tenant_end_at_once",
    ],
    "14 litellm#25553 an old copy of a key comes back": [
        f"{CASES}::test_case_14_litellm_25553_a_request_in_flight_brings_no_old_key_back",
        f"{CALLER}::test_a_raised_limit_takes_effect_at_once",
    ],
    "15 litellm#34732 budgets are passed in parallel": [
        f"{WINDOWS}::test_a_budget_is_held_at_reserve_and_charged_at_settle",
        f"{LIMITER}test_many_tenants.py::test_made_up_users_of_a_tenant_have_its_limits_alone",
    ],
    "16 bifrost#2873 a way around the budget": [
        f"{HTTP}::test_a_bad_field",
        f"{WINDOWS}::test_an_exhausted_budget_says_when_the_next_window_begins",
        "tests/authorisation/test_matrix.py::test_every_route_has_a_row",
    ],
    "17 PyrateLimiter#182 scripts are lost": [
        f"{REDIS}::test_a_server_that_lost_its_scripts_gets_them_once"
    ],
    "18 rate-limit-redis#251 a replay counts twice": [
        f"{EDGES}::test_04_a_timeout_after_commit_and_a_retry_are_one_charge"
    ],
    "19 litellm#34633 names that are not ASCII": [
        f"{CASES}::test_case_19_litellm_34633_names_and_headers_of_any_script"
    ],
    "20 litellm#39385 prompts and keys in logs of failures": [
        f"{SAFETY}::test_nothing_is_in_logs_spans_metrics_bill_or_queue",
        f"{CALLER}::test_bad_keys_are_refused_without_being_quoted",
        "tests/core/test_foreign_lines.py::test_a_warning_keeps_numbers_and_single_words",
    ],
    "21 BricksLLM#45 browsers are asked for a key": [
        f"{DOOR}::test_browsers_may_call",
        f"{CASES}::test_case_21_vllm_4862_errors_too_have_what_browsers_need",
    ],
    "22 litellm#38157 rows are lost or doubled": [
        f"{PUMP}::test_a_kill_between_write_and_acknowledgement_charges_once",
        f"{PUMP}::test_a_database_that_goes_and_comes_back_loses_nothing",
        f"{HERE}test_restarts.py::test_a_gateway_that_stops_settles_what_runs",
    ],
    "23 posthog#50542 ids of users of others": [
        f"{IDS}::test_15_same_user_id_under_two_tenants",
        f"{NUMBERS}::test_09_and_10_hostile_numbers_and_sentinels",
        f"{CASES}::test_case_23_posthog_50542_a_user_that_a_client_names_is_nobodys_account",
    ],
    "24 kuadrant-operator#2225 one id for several limits": [
        f"{LIMITS}::test_02_a_layer_that_denies_leaves_the_others_untouched",
        f"{WINDOWS}::test_budgets_of_all_layers_or_of_none",
    ],
    "25 grpc#36193 a cancelled call waits for ever": [
        "tests/core/test_rpc_handlers.py::"
        "test_client_cancel_of_a_waiting_stream_is_cancelled_error_and_finally_may_await",
        "tests/fuzz/test_grpc.py::test_300_calls",
    ],
}

NAMED = [
    pytest.param(test, id=f"{case.split()[0]} {test.split('::')[1]}")
    for case, tests in REPORTS.items()
    for test in tests
]


def test_the_list_is_whole() -> None:
    assert [int(case.split()[0]) for case in REPORTS] == list(range(1, 26))
    assert all(REPORTS.values())


@pytest.mark.parametrize("test", NAMED)
def test_the_test_exists(repo_root: Path, test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (repo_root / path).read_text()
