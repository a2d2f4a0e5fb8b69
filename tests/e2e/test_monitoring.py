"""Every expression of dashboards and rules, asked of a Prometheus that watches a real stack."""

import asyncio
import math
from collections.abc import AsyncIterator

import httpx2
import openai
import pytest
import pytest_asyncio
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.deployment import Deployment
from tests.e2e.measured import REQUESTS
from tests.e2e.prometheus import Prometheus, running_prometheus
from tests.e2e.promql import queries, rules, without_variables
from tests.e2e.wait import until
from tools.metrics_reference import Family, catalogue
from weir_cli.stack.scrape_targets import FILE

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("prometheus"),
    # The first one waits for scrapes.
    pytest.mark.timeout(300),
]

TENANT = "measured"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def watched(
    counting: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prometheus]:
    """A Prometheus that saw some traffic: answers, and refusals by a limit."""
    folder = tmp_path_factory.mktemp("prometheus")
    async with running_prometheus(folder, counting.state / FILE) as prometheus:
        await ask(counting, 1)
        await prometheus.scraped_again()
        await ask(counting, REQUESTS - 1)
        assert await ask(counting, 2) == 2
        await prometheus.scraped_again()
        # What is measured by a rate needs two refusals at least, a scrape apart.
        assert await ask(counting, 1) == 1
        await prometheus.scraped_again(4)
        yield prometheus


async def ask(stack: Deployment, times: int) -> int:
    """Asks so often at once; returns how often it was refused with 429."""
    client = openai.AsyncOpenAI(
        base_url=stack.base_url,
        api_key=stack.secret(TENANT),
        max_retries=0,
        default_headers={"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"},
    )
    async with client:
        answers = await asyncio.gather(
            *(_answer(client, stack.model, number) for number in range(times)),
            return_exceptions=True,
        )
    refused = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(failed) == len(refused), failed
    return len(refused)


async def _answer(client: openai.AsyncOpenAI, model: str, number: int) -> None:
    """Streamed, as targets are measured by the first token; with a beginning that is shared."""
    chunks = await client.chat.completions.create(
        model=model,
        messages=[
            {"role": "system", "content": "Say little. " * 20},
            {"role": "user", "content": f"{number} words"},
        ],
        max_tokens=8,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    async for _ in chunks:
        pass


async def test_every_panel_has_an_answer(watched: Prometheus) -> None:
    empty = []
    for where, query in queries():
        found = await watched.query(without_variables(query.expr))
        if not query.rare and not any(not math.isnan(value) for _, value in found):
            empty.append((where, query.expr))
    assert not empty, "\n".join(map(str, empty))


async def test_every_rule_is_evaluated(watched: Prometheus) -> None:
    groups = (await watched.get("rules"))["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    assert len(found) == len(list(rules()))
    assert not [(rule["name"], rule.get("lastError")) for rule in found if rule["health"] != "ok"]
    missing = [
        rule["name"]
        for rule in found
        if rule["type"] == "recording" and not await watched.query(rule["name"])
    ]
    assert not missing


async def test_nothing_fires_where_all_is_well(watched: Prometheus) -> None:
    firing = await watched.query('ALERTS{alertstate="firing"}')
    assert not firing


async def test_percentiles_and_counts_are_those_of_what_was_asked(watched: Prometheus) -> None:
    mine = await watched.query(
        f'sum by (outcome) (weir_gateway_requests_total{{tenant="{TENANT}"}})'
    )
    assert mine == [({"outcome": "ok"}, REQUESTS)]
    limited = await watched.query(f'weir_gateway_limited_total{{tenant="{TENANT}"}}')
    assert [(labels["limit"], value) for labels, value in limited] == [("requests", 3.0)]
    (kept,) = await watched.query(
        f'weir_scheduler_slo_requests_total{{tenant="{TENANT}", objective="ttft"}}'
    )
    assert (kept[0]["outcome"], kept[1]) == ("kept", REQUESTS)
    for part in ("p50", "p95", "p99"):
        for name in ("time_to_first_token", "tokens_per_second", "end_to_end_latency"):
            ((_, value),) = await watched.query(f"model:{name}:{part}")
            assert value > 0


@pytest.mark.parametrize(
    "histogram",
    ["time_to_first_token", "end_to_end_latency", "weir_scheduler_queue_time_seconds"],
)
async def test_a_recorded_trace_is_found_beside_its_times(
    watched: Prometheus, histogram: str
) -> None:
    async def traces() -> set[str]:
        found = await watched.get(
            "query_exemplars", query=f"{histogram}_bucket", start="0", end="4102444800"
        )
        return {
            exemplar["labels"]["trace_id"] for series in found for exemplar in series["exemplars"]
        }

    assert TRACE_ID in await until(traces, lambda ids: TRACE_ID in ids, "the exemplar")


async def test_everything_exported_is_described_with_its_labels(counting: Deployment) -> None:
    known = {family.name: family for family in catalogue()}
    targets = yaml.safe_load((counting.state / FILE).read_text())
    assert {group["labels"]["service"] for group in targets} == {
        "gateway", "ratelimiter", "scheduler", "worker",
    }  # fmt: skip
    async with httpx2.AsyncClient(timeout=30) as http:
        for group in targets:
            page = (await http.get(f"http://{group['targets'][0]}/metrics")).text
            assert not _unlike(page, known)
            for key in counting.keys.values():
                assert key.secret not in page
                assert key.id not in page


def _unlike(page: str, known: dict[str, Family]) -> list[object]:
    """What a page has that is not in the reference."""
    wrong: list[object] = []
    for family in text_string_to_metric_families(page):
        name = family.name + ("_total" if family.type == "counter" else "")
        if name.endswith("_created"):
            continue
        described = known.get(name)
        if described is None or (described.kind, described.text) != (
            family.type if described.kind != "info" else "info",
            family.documentation.strip().rstrip("."),
        ):
            wrong.append((name, family.type, family.documentation))
            continue
        wrong += [
            sample
            for sample in family.samples
            if set(sample.labels) - {"le"} != set(described.labels)
        ]
    return wrong
