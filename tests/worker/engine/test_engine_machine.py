"""The engine under everything that can happen to it, with its books checked after every step."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import OverlappedFake, PagedFake, expected_output
from weir_worker.engine.commands import Preempt, ReleaseSession
from weir_worker.engine.events import FinishReason
from weir_worker.kv import KvPolicy

SIZE = 4
EDGES = (SIZE - 1, SIZE, SIZE + 1, 2 * SIZE)
QUOTA = 28
POLICIES = {
    "quota": KvPolicy(max_tokens=QUOTA, session_ttl_ms=20),
    "heavy": KvPolicy(weight=5, session_ttl_ms=1_000),
    "shares": KvPolicy(share_private=True, session_ttl_ms=0),
}
TENANTS = st.sampled_from(sorted(POLICIES))


class EngineMachine(RuleBasedStateMachine):
    """Arrivals, aborts, pre-emptions, sessions, quotas and age, in any order."""

    @initialize(
        num_blocks=st.sampled_from([12, 24]),
        max_step_tokens=st.sampled_from([6, 32]),
        context=st.sampled_from([0, 20]),
        overlaps=st.booleans(),
        host_blocks=st.sampled_from([0, 4, 40]),
    )
    def start(
        self,
        num_blocks: int,
        max_step_tokens: int,
        context: int,
        overlaps: bool,
        host_blocks: int,
    ) -> None:
        self.driver = Driver(
            runner=OverlappedFake(PagedFake(num_blocks, SIZE)) if overlaps else None,
            num_blocks=num_blocks,
            block_size=SIZE,
            max_step_tokens=max_step_tokens,
            max_running=6,
            watermark_blocks=1,
            max_step_context_tokens=context,
            cache_ttl_us=30_000,
            host_blocks=host_blocks,
        )
        self.asked: dict[str, tuple[str, list[int], int]] = {}
        self.aborted: set[str] = set()
        self.histories: dict[tuple[str, str], list[int]] = {}

    @rule(
        tenant=TENANTS,
        session=st.sampled_from(["", "s", "t"]),
        edge=st.sampled_from(EDGES),
        letter=st.integers(97, 98),
        goes_on=st.booleans(),
        length=st.integers(1, 9),
        declared=st.sampled_from([0, SIZE]),
    )
    def submit(
        self,
        tenant: str,
        session: str,
        edge: int,
        letter: int,
        goes_on: bool,
        length: int,
        declared: int,
    ) -> None:
        past = self.histories.get((tenant, session), []) if session and goes_on else []
        prompt = [*past[:8], *([letter] * edge)]
        name = f"r{len(self.asked)}"
        self.asked[name] = (tenant, prompt, length)
        self.driver.submit(
            name,
            prompt,
            length,
            tenant=tenant,
            kv=POLICIES[tenant],
            private_scope=session,
            tenant_prefix_tokens=min(declared, len(prompt)),
        )

    @rule(which=st.integers(0, 50))
    def abort(self, which: int) -> None:
        self.driver.abort(f"r{which}")
        self.aborted.add(f"r{which}")

    @rule(which=st.integers(0, 50))
    def preempt(self, which: int) -> None:
        self.driver.engine.apply(Preempt(f"r{which}"))

    @rule(tenant=TENANTS, session=st.sampled_from(["s", "t"]))
    def release_session(self, tenant: str, session: str) -> None:
        self.driver.engine.apply(ReleaseSession(tenant, session))

    @rule(steps=st.integers(1, 6))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            for terminal in self.driver.step().terminals:
                tenant, prompt, _ = self.asked[terminal.request_id]
                answer = self.driver.record(terminal.request_id).tokens
                for session in ("s", "t"):
                    self.histories[tenant, session] = prompt + answer

    @rule(passed_us=st.integers(1_000, 40_000))
    def wait(self, passed_us: int) -> None:
        self.driver.clock.advance_us(passed_us)

    @invariant()
    def quotas_hold_and_answers_are_right(self) -> None:
        if not hasattr(self, "driver"):
            return
        for account in self.driver.kv.accounts():
            if account.tenant == "quota":
                assert account.running <= QUOTA // SIZE
        for name, (_, prompt, length) in self.asked.items():
            answer = self.driver.record(name).tokens
            assert answer == expected_output(prompt, length)[: len(answer)]

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.run()
        for name, (_, prompt, length) in self.asked.items():
            terminal = self.driver.terminal(name)
            if name not in self.aborted:
                assert terminal.finish_reason is FinishReason.LENGTH
                assert self.driver.record(name).tokens == expected_output(prompt, length)
                assert terminal.usage.prompt_tokens == len(prompt)


EngineMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestEngineMachine = EngineMachine.TestCase
