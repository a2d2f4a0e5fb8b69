"""Jobs over HTTP."""

import pytest

from tests.gateway.harness import Gateway
from tests.gateway.jobs.asking import submit, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_job_runs_offline_and_its_answer_is_that_of_its_endpoint(site: Gateway) -> None:
    job = await submit(site)
    assert job["status"] == "queued"
    ended = await until(site, job["id"])
    assert ended["status"] == "succeeded"
    assert ended["response"]["choices"][0]["message"]["content"] == "t0 t1 t2 t3 "
