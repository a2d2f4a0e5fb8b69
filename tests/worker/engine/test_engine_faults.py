"""Bad input and faults: one request is hurt, the others and the engine live on."""

import pytest

from tests.worker.engine.driver import Driver, submission
from tests.worker.engine.paged_fake import expected_output
from weir_core.errors import Reason
from weir_core.prefix_hash import PrefixNamespace
from weir_worker.engine.events import Failure, FinishReason
from weir_worker.kv import PrefixScopes
from weir_worker.text import Detokenizer
from weir_worker.text.byte_level import ByteLevelDetokenizerFactory


def failure_of(driver: Driver, request_id: str) -> Failure:
    failure = driver.terminal(request_id).failure
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("field", "shown", "fields"),
    [
        ("prompt_token_ids", "[]", {"prompt": []}),
        ("prompt_token_ids", "256", {"prompt": [1, 256]}),
        ("prompt_token_ids", "-1", {"prompt": [-1, 5]}),
        ("max_new_tokens", "0", {"length": 0}),
        ("max_new_tokens", "-7", {"length": -7}),
        ("tenant_prefix_tokens", "3", {"tenant_prefix_tokens": 3}),
        ("tenant_prefix_tokens", "-1", {"tenant_prefix_tokens": -1}),
        ("stop", "0 characters", {"stop": ["ok", ""]}),
        ("stop", "257 characters", {"stop": ["x" * 257]}),
        ("stop", "17 strings", {"stop": ["x"] * 17}),
        ("stop_token_ids", "999", {"stop_token_ids": [999]}),
        ("stop_token_ids", "65 ids", {"stop_token_ids": [1] * 65}),
        ("tenant", "''", {"tenant": ""}),
    ],
)
def test_bad_field_is_refused_by_name_value_and_bound(
    field: str, shown: str, fields: dict[str, object]
) -> None:
    driver = Driver()
    values = dict(fields)
    prompt, length = values.pop("prompt", [1, 2]), values.pop("length", 4)
    driver.submit("bad", prompt, length, **values)  # type: ignore[arg-type]
    driver.submit("good", [97, 98], 4)
    driver.run()
    failure = failure_of(driver, "bad")
    assert driver.reason("bad") is FinishReason.REJECTED
    assert failure.reason is Reason.INVALID_FIELD
    assert failure.field == field
    assert field in failure.message
    assert shown in failure.message
    assert "must be" in failure.message
    assert driver.record("good").tokens == expected_output([97, 98], 4)


def test_refusal_of_a_stop_string_does_not_quote_it() -> None:
    driver = Driver()
    driver.submit("bad", [1], 4, stop=["secret" * 100])
    driver.run()
    assert "secret" not in failure_of(driver, "bad").message


def test_failing_forward_ends_its_batch_and_nobody_else() -> None:
    driver = Driver(max_running=2)
    for request_id in ("a", "b", "waiting"):
        driver.submit(request_id, [97, 98], 6)
    driver.step()
    driver.fake.fail_batch = True
    driver.step()
    driver.fake.fail_batch = False
    driver.run()
    for request_id in ("a", "b"):
        assert driver.reason(request_id) is FinishReason.ERROR
        assert failure_of(driver, request_id).reason is Reason.ENGINE_FAILED
        assert driver.terminal(request_id).usage.completion_tokens == 1
    assert driver.record("waiting").tokens == expected_output([97, 98], 6)
    assert driver.outputs[-1].load.counters.failed_steps == 1


def test_failing_row_ends_its_request_and_wipes_its_blocks() -> None:
    driver = Driver()
    poison = [100] * 12
    driver.fake.fail_rows = lambda context: list(context[:12]) == poison
    driver.submit("poisoned", poison, 6, tenant_prefix_tokens=12)
    driver.submit("healthy", [97, 98], 6)
    driver.run()
    assert failure_of(driver, "poisoned").reason is Reason.ENGINE_FAILED
    assert driver.record("poisoned").tokens == []
    assert driver.record("healthy").tokens == expected_output([97, 98], 6)
    assert len(driver.fake.cleared) == 3
    driver.fake.fail_rows = lambda context: False
    driver.submit("again", poison, 6, tenant_prefix_tokens=12)
    driver.run()
    assert driver.terminal("again").usage.cached_prompt_tokens == 0, "its KV is not trusted"
    assert driver.record("again").tokens == expected_output(poison, 6)


def test_row_that_fails_later_keeps_what_it_streamed() -> None:
    driver = Driver()
    driver.fake.fail_rows = lambda context: len(context) == 7
    driver.submit("r", [97, 98], 20)
    driver.run()
    assert driver.record("r").tokens == expected_output([97, 98], 5)
    assert driver.terminal("r").usage.completion_tokens == 5


def test_failing_detokeniser_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    real = ByteLevelDetokenizerFactory.open

    class Broken:
        def push(self, token_id: int) -> str:
            raise ValueError("broken")

        def flush(self) -> str:
            raise ValueError("broken")

    def opened(factory: ByteLevelDetokenizerFactory, prompt: list[int]) -> Detokenizer:
        return Broken() if prompt[0] == 66 else real(factory, prompt)

    monkeypatch.setattr(ByteLevelDetokenizerFactory, "open", opened)
    driver.submit("broken", [66, 66], 5)
    driver.submit("healthy", [97, 98], 5)
    driver.run()
    assert driver.reason("broken") is FinishReason.ERROR
    assert driver.record("healthy").tokens == expected_output([97, 98], 5)


def test_fault_between_steps_ends_requests_and_not_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    driver.submit("a", [97, 98], 5)
    driver.step()

    def broken() -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(driver.engine.planner, "plan", broken)
        driver.step()
    assert failure_of(driver, "a").reason is Reason.INTERNAL
    driver.submit("b", [97, 98], 5)
    driver.run()
    assert driver.record("b").tokens == expected_output([97, 98], 5)


def hold_outside(driver: Driver, blocks: int) -> None:
    """Take blocks that belong to no sequence."""
    scopes = PrefixScopes(PrefixNamespace("x", "m"), PrefixNamespace("x", "m", scope="s"), 0)
    tokens = [0] * (blocks * driver.kv.block_size)
    assert driver.kv.allocate(driver.kv.open_table("x", tokens, scopes), len(tokens)) == 0


def test_running_request_without_room_to_grow_ends_alone() -> None:
    driver = Driver(num_blocks=8, block_size=4)
    hold_outside(driver, blocks=6)
    driver.engine.apply(submission("grows", [97] * 7, 8))
    driver.engine.apply(submission("behind", [97] * 3, 4))
    terminals = {t.request_id: t for _ in range(30) for t in driver.engine.step().terminals}
    assert terminals["grows"].finish_reason is FinishReason.ERROR
    assert terminals["grows"].usage.completion_tokens == 2
    assert terminals["behind"].finish_reason is FinishReason.LENGTH


def test_head_of_the_queue_that_cannot_start_is_refused_and_blocks_nobody() -> None:
    driver = Driver(num_blocks=8, block_size=4)
    hold_outside(driver, blocks=6)
    driver.engine.apply(submission("large", [97] * 20, 4))
    driver.engine.apply(submission("small", [97] * 3, 4))
    terminals = [t for _ in range(20) for t in driver.engine.step().terminals]
    assert [(t.request_id, t.finish_reason) for t in terminals] == [
        ("large", FinishReason.ERROR),
        ("small", FinishReason.LENGTH),
    ]
    assert terminals[0].failure is not None
    assert terminals[0].failure.reason is Reason.INTERNAL
