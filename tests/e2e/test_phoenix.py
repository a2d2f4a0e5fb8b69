"""An ordinary viewer shows a request: Arize Phoenix, fed by the real stack, looked at in Chromium.

Only with `-m peers`, after `make peers ARGS="phoenix"`. The picture is left in `$ARTEFACTS`, or
beside the other files of the test.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from playwright.async_api import async_playwright

from bench.peers.home import is_installed
from bench.peers.phoenix import Phoenix, phoenix
from tests.e2e.conftest import WIDE
from tests.e2e.deployment import deployed

pytestmark = [pytest.mark.peers, pytest.mark.needs("chromium"), pytest.mark.timeout(600)]

_SHOWN = ("intake", "reserve", "queue", "attempt", "worker", "prefill", "decode", "settle")
_SERVICES = ("GATEWAY", "RATELIMITER", "SCHEDULER", "WORKER")


async def test_phoenix_shows_a_request_as_one_trace_of_a_model(tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    if not is_installed("phoenix"):
        pytest.skip('phoenix is not installed; `make peers ARGS="phoenix"` does')
    (tmp_path / "phoenix").mkdir()
    async with phoenix(tmp_path / "phoenix") as viewer:
        settings = {f"WEIR_{service}__TRACE_SAMPLE_RATIO": "1" for service in _SERVICES}
        async with deployed(
            tmp_path / "state",
            None,
            tenants={"acme": {"plan": "wide"}},
            plans=WIDE,
            settings=settings | {"WEIR_WORKER__NULL_STEP_US": "20000"},
            otlp=viewer.otlp,
        ) as stack:
            async with openai.AsyncOpenAI(
                base_url=stack.base_url, api_key=stack.secret("acme")
            ) as client:
                raw = await client.chat.completions.with_raw_response.create(
                    model=stack.model,
                    messages=[{"role": "user", "content": "hello"}],
                    max_tokens=30,
                )
            trace_id = raw.headers["traceresponse"].split("-")[1]
            spans = await _spans(viewer, trace_id)
            root = next(span for span in spans if span["name"].startswith("chat "))
            assert root["span_kind"] == "LLM"
            assert root["attributes"]["llm.token_count.completion"] == 30
            assert root["attributes"]["weir.tenant.id"] == "acme"
            await _look(viewer, trace_id, chromium, tmp_path)


async def _spans(viewer: Phoenix, trace_id: str) -> list[dict[str, Any]]:
    """What it tells of a trace, once it has all of it."""
    async with asyncio.timeout(60), httpx2.AsyncClient(base_url=viewer.url) as http:
        while True:
            answer = await http.get("/v1/projects/default/spans", params={"limit": 1000})
            found = answer.json()["data"] if answer.status_code == 200 else []
            spans = [span for span in found if span["context"]["trace_id"] == trace_id]
            if {span["name"] for span in spans} >= set(_SHOWN):
                return spans
            await asyncio.sleep(0.5)


async def _look(viewer: Phoenix, trace_id: str, chromium: str, folder: Path) -> None:
    """Opens the trace's page, finds every span in it, and takes a picture."""
    async with httpx2.AsyncClient(base_url=viewer.url) as http:
        projects = (await http.get("/v1/projects")).json()["data"]
    project = next(project["id"] for project in projects if project["name"] == "default")
    artefacts = Path(os.environ.get("ARTEFACTS") or folder)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1600, "height": 1000})
        await page.goto(f"{viewer.url}/projects/{project}/traces/{trace_id}", timeout=90_000)
        for name in _SHOWN:
            await page.get_by_text(name, exact=True).first.wait_for(timeout=60_000)
        await page.screenshot(path=artefacts / "phoenix.png")
        await browser.close()
