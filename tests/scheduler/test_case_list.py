"""Which tests show that the scheduler handles each report of another project's trouble with
scheduling and routing, and each family of such faults. The tests named here exist.
"""

from pathlib import Path

import pytest

HERE = "tests/scheduler/"
CASES = HERE + "test_cases.py"
FLEET = HERE + "test_fleet_cases.py"
EARLY = HERE + "test_early_refusal.py"
SCALER = HERE + "test_autoscaler.py"
PREEMPTION = HERE + "test_preemption.py"
AFFINITY = HERE + "placement/test_affinity.py"
CONFORMANCE = HERE + "policies/test_conformance.py"
BOUND = HERE + "policies/test_fairness_bound.py"
POLICIES = HERE + "test_policies.py"
RETRIES = HERE + "test_retries.py"
TAKEOVER = HERE + "test_takeover.py"
CHURN = HERE + "test_memory_under_churn.py"
SHEDDING = "tests/gateway/test_shedding.py"
LEAVES = "tests/e2e/test_worker_leaves.py"

DRAIN = f"{LEAVES}::test_case_16_19_20_a_drain_under_load_cuts_no_stream_however_long_it_takes"

REPORTS: dict[str, list[str]] = {
    "1 GAIE#1861 low priorities starve": [
        f"{CASES}::test_case_1_gaie_1861_a_steady_stream_of_interactive_work_does_not_starve_batch",
        f"{HERE}test_shares.py::test_case_1_gaie_1861_under_steady_interactive_load_no_class_starves",
    ],
    "2 GAIE#2103 no shedding at the limit": [
        f"{CASES}::test_case_2_gaie_2103_beyond_the_limit_the_queue_refuses",
        f"{EARLY}::test_case_2_gaie_2103_a_full_queue_refuses_at_the_limit_and_never_holds_more",
    ],
    "3 GAIE#1497 a stale worker wins": [
        f"{CASES}::test_case_3_gaie_1497_an_idle_worker_that_stopped_reporting_gets_nothing"
    ],
    "4 llm-d-router#1182 huge prompts monopolise": [
        f"{CASES}::test_case_4_llm_d_router_1182_a_tenant_of_huge_prompts_does_not_monopolise",
        f"{CASES}::test_case_4_turn_based_order_would_have_failed_that_test",
    ],
    "5 vllm#41951 a pre-empted request loses its place": [
        f"{CASES}::test_case_5_vllm_41951_a_requeued_request_goes_before_its_newer_peers",
        f"{PREEMPTION}::test_the_urgent_gets_the_place_and_the_victim_its_old_one_in_the_queue",
        f"{PREEMPTION}::test_one_request_is_pre_empted_so_often_and_no_more",
    ],
    "6 litellm#6867 priority has no effect": [
        f"{CASES}::test_case_6_litellm_6867_the_queue_holds_back_by_capacity_not_by_health",
        f"{EARLY}::test_case_6_litellm_6867_priority_counts_while_workers_are_healthy_but_full",
    ],
    "7 litellm#36774 the default priority fails": [
        f"{SHEDDING}::test_case_7_litellm_36774_the_default_priority_applies_where_none_is_sent"
    ],
    "8 sglang#14532 misses go to the busiest": [
        f"{CASES}::test_case_8_sglang_14532_misses_go_to_the_least_loaded_not_to_one_worker"
    ],
    "9 sglang#15473 load is not counted": [
        f"{CASES}::test_case_9_sglang_15473_every_dispatch_counts_as_load"
    ],
    "10 vllm router#198 counters are thrown away": [
        f"{CASES}::test_case_10_vllm_router_198_counters_persist_and_ties_are_drawn_by_lot"
    ],
    "11 vllm router#178 a herd between two polls": [
        f"{CASES}::test_case_11_vllm_router_178_no_herd_between_two_reports"
    ],
    "12 sglang#25811 the breaker counts 4xx": [
        f"{CASES}::test_case_12_sglang_25811_oversized_requests_open_no_breaker"
    ],
    "13 Infera#82 a failing worker is picked again": [
        f"{CASES}::test_case_13_infera_82_failures_are_remembered_across_requests"
    ],
    "14 production-stack#15 a session on a dead worker": [
        f"{CASES}::test_case_14_production_stack_15_a_session_on_a_dead_worker_moves_on"
    ],
    "15 dynamo#13088 requests hang after the choice": [
        f"{CASES}::test_case_15_dynamo_13088_a_worker_that_leaves_between_pick_and_first_token",
        f"{CASES}::test_case_15_and_one_that_never_received_it_is_bounded_too",
        f"{FLEET}::test_case_15_dynamo_13088_no_request_hangs_while_workers_churn",
    ],
    "16 dynamo#13559 scaling down aborts": [
        f"{CASES}::test_case_16_dynamo_13559_draining_aborts_nothing_however_long_it_takes",
        f"{FLEET}::test_case_16_drains_in_any_order_abort_nothing_and_count_everything",
        DRAIN,
    ],
    "17 dynamo#10774 state grows without bound": [
        f"{CASES}::test_case_17_dynamo_10774_what_is_known_of_prefixes_stays_bounded",
        f"{CHURN}::test_case_17_memory_does_not_grow_while_workers_and_prefixes_churn",
    ],
    "18 dynamo#11647 a late free": [
        f"{CASES}::test_case_18_dynamo_11647_a_late_free_of_an_old_attempt_releases_no_new_booking"
    ],
    "19 ray#41726 a drain is cut short": [
        f"{FLEET}::test_case_19_ray_41726_a_drain_has_no_deadline_of_its_own",
        DRAIN,
    ],
    "20 ray#63995 work while shutting down": [
        f"{CASES}::test_case_20_ray_63995_a_worker_that_shuts_down_is_never_chosen",
        f"{FLEET}::test_case_20_ray_63995_what_was_on_its_way_when_the_drain_began_runs_elsewhere",
        DRAIN,
    ],
    "21 dynamo#10528 scaling ignores the queue": [
        f"{SCALER}::"
        "test_case_21_dynamo_10528_queue_time_asks_for_more_while_use_is_within_its_target",
        f"{SCALER}::test_case_21_the_wait_of_before_does_not_ask_again_for_the_workers_that_came",
    ],
    "22 aibrix#2224 who leaves after the end fails": [
        f"{CASES}::"
        "test_case_22_aibrix_2224_the_place_is_free_with_the_last_token_not_with_the_socket",
        f"{FLEET}::test_case_22_aibrix_2224_who_leaves_after_the_last_token_is_no_failure",
    ],
    "23 aibrix#842 a hot prefix": [
        f"{CASES}::test_case_23_aibrix_842_a_hot_prefix_does_not_make_a_hot_worker",
        f"{AFFINITY}::test_a_prefix_that_all_share_loads_no_worker_beyond_1_3_times_the_mean",
    ],
    "24 smg#2220 a shed is retried": [
        f"{CASES}::test_case_24_smg_2220_shed_is_final_tells_when_to_retry_and_is_not_retried_here",
        f"{CASES}::test_case_24_capacity_is_checked_again_at_dispatch",
        f"{EARLY}::test_case_24_smg_2220_it_is_looked_at_again_before_it_is_dispatched",
        f"{SHEDDING}::test_case_24_smg_2220_a_shed_is_not_retried_and_tells_when_to_come",
    ],
    "25 kthena#924 a sticky worker that is full": [
        f"{CASES}::test_case_25_kthena_924_a_session_whose_worker_is_full_goes_elsewhere"
    ],
    "26 dynamo#7489 a cancel leaks": [
        f"{FLEET}::test_case_26_dynamo_7489_a_cancel_frees_the_place_when_the_worker_says_so",
        f"{FLEET}::test_case_26_a_cancel_of_what_is_lost_with_its_worker_leaks_nothing",
    ],
}

FAMILIES: dict[str, list[str]] = {
    "counters under error, cancel and disconnect": [
        f"{CONFORMANCE}::test_nothing_is_left_behind_on_any_way_out",
        f"{HERE}test_state_machine.py::test_many_more_lives",
        f"{HERE}test_live.py::test_everything_returns_to_rest_after_a_finished_request",
        f"{TAKEOVER}::test_what_runs_keeps_its_place_and_gives_it_once",
    ],
    "herds": [
        f"{CASES}::test_case_11_vllm_router_178_no_herd_between_two_reports",
        f"{CASES}::test_case_9_sglang_15473_every_dispatch_counts_as_load",
    ],
    "hot prefix": [
        f"{AFFINITY}::test_a_prefix_that_all_share_loads_no_worker_beyond_1_3_times_the_mean",
        f"{AFFINITY}::test_without_the_bound_one_worker_would_have_it_all",
    ],
    "dead sticky target": [
        f"{CASES}::test_case_14_production_stack_15_a_session_on_a_dead_worker_moves_on",
        f"{AFFINITY}::test_a_home_that_takes_no_work_is_left_at_once",
    ],
    "priority with aging, both ways": [
        f"{POLICIES}::test_the_unimportant_is_served_under_an_endless_stream_of_urgent_work",
        f"{POLICIES}::test_an_aged_backlog_does_not_push_the_urgent_aside",
    ],
    "drain with live streams": [DRAIN],
    "memory under prefix churn": [
        f"{CHURN}::test_case_17_memory_does_not_grow_while_workers_and_prefixes_churn"
    ],
    "retry budget under full shed": [
        f"{RETRIES}::test_under_full_shed_retries_add_a_tenth_and_no_storm",
        f"{RETRIES}::test_without_the_budget_each_would_be_dispatched_three_times",
        f"{SHEDDING}::test_case_24_smg_2220_a_shed_is_not_retried_and_tells_when_to_come",
        f"{EARLY}::test_who_obeys_retry_after_is_let_in_the_next_time",
    ],
    "breaker taxonomy": [
        f"{RETRIES}::test_only_transport_and_engine_are_the_workers_fault",
        f"{CASES}::test_case_12_sglang_25811_oversized_requests_open_no_breaker",
        f"{CASES}::test_case_13_infera_82_failures_are_remembered_across_requests",
    ],
    "100:1 request sizes": [
        f"{CASES}::test_case_4_llm_d_router_1182_a_tenant_of_huge_prompts_does_not_monopolise",
        f"{BOUND}::test_weighted_service_stays_in_the_bound",
    ],
    "scaling under noise": [
        f"{SCALER}::test_noise_within_the_band_never_changes_anything",
        f"{SCALER}::test_without_band_and_windows_the_same_noise_flaps",
    ],
}

NAMED = [
    pytest.param(test, id=f"{case.split()[0]} {test.split('::')[1]}")
    for case, tests in (REPORTS | FAMILIES).items()
    for test in tests
]


def test_the_list_is_whole() -> None:
    assert [int(case.split()[0]) for case in REPORTS] == list(range(1, 27))
    assert len(FAMILIES) == 11
    assert all(tests for tests in (REPORTS | FAMILIES).values())


@pytest.mark.parametrize("test", NAMED)
def test_the_test_exists(repo_root: Path, test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (repo_root / path).read_text()
