"""The playground streams an answer with its pace, stops one, and its code does the same."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.console.visit import Visit, Visits
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

MESSAGE = 'It\'s a "weir": $HOME, \\ and é'


async def test_an_answer_streams_with_its_pace_and_is_inspected(
    visits: Visits, site: Deployment
) -> None:
    visit = await visits.tenant("globex")
    await _say(visit, MESSAGE, tokens="12")
    pace = visit.page.locator(".turn.assistant .pace")
    await pace.get_by_text("TTFT").wait_for()
    told = await pace.inner_text()
    assert re.search(r"TTFT \d", told)
    assert re.search(r"ITL p50 \d", told)
    assert re.search(r"tokens \d+ \+ 12", told)
    await visit.page.get_by_role("link", name="Inspect").click()
    await visit.page.wait_for_selector(".waterfall .phase")


async def test_stop_ends_the_work(visits: Visits, site: Deployment) -> None:
    visit = await visits.tenant("globex")
    await _say(visit, "Go on for long.", tokens="4000")
    await visit.page.locator(".turn.assistant .text:not(:empty)").wait_for()
    await visit.page.get_by_role("button", name="Stop").click()
    await visit.page.get_by_text("Stopped. What ran until then is charged.").wait_for()
    await until(lambda: _running(site), lambda running: running == 0, "an idle worker")


async def test_a_refusal_is_told_in_the_chat(visits: Visits) -> None:
    visit = await visits.tenant("initech")
    visit.expected = ("429", "400", "413")
    await _say(visit, "Too much for a trial.", tokens="400")
    text = await visit.page.get_by_role("alert").inner_text()
    assert "tpm" in text


async def test_an_administrator_pastes_a_key_that_the_page_forgets(
    visits: Visits, site: Deployment
) -> None:
    visit = await visits.admin()
    await visit.open("playground")
    await visit.page.get_by_role("textbox", name="API key").first.fill(site.secret("acme"))
    await _say(visit, "Hello", tokens="4", opened=True)
    await visit.page.locator(".pace").get_by_text("TTFT").wait_for()
    kept = "JSON.stringify([localStorage, sessionStorage, document.cookie])"
    assert site.secret("acme") not in await visit.page.evaluate(kept)
    await visit.open("playground")


# Of the three, importing OpenAI's package costs the most.
@pytest.mark.parametrize("form", ["curl", "gRPC", pytest.param("Python", marks=pytest.mark.soak)])
async def test_the_code_of_a_request_does_it_when_pasted(
    visits: Visits, site: Deployment, tmp_path: Path, form: str
) -> None:
    visit = await visits.tenant("acme")
    await visit.open("playground")
    page = visit.page
    await page.get_by_label("Longest answer, tokens").fill("5")
    await page.get_by_label("Temperature, 0 to 2").fill("0")
    await page.get_by_label("Seed").fill("7")
    await page.get_by_label("Stop").fill("never")
    await page.get_by_label("Top k, 0 is off").fill("4")
    await page.get_by_label("System message").fill("Be 'short'.\nAnd plain.")
    await page.get_by_role("textbox", name="Message", exact=True).fill(MESSAGE)
    await page.get_by_role("button", name="View as code").click()
    await page.get_by_role("button", name=form, exact=True).click()
    code = await page.inner_text("dialog pre")
    assert "WEIR_API_KEY" in code
    said = await _pasted(code, form, site, tmp_path)
    if form == "curl":
        assert '"finish_reason":"length"' in said.replace(" ", "")
        assert '"completion_tokens":5' in said.replace(" ", "")
    else:
        assert said.strip(), code


async def _pasted(code: str, form: str, site: Deployment, folder: Path) -> str:
    file = folder / "pasted"
    file.write_text(code)
    shell = ["bash", str(file)] if form == "curl" else [sys.executable, str(file)]
    environment = {
        **os.environ,
        "WEIR_API_KEY": site.secret("acme"),
        "WEIR_TARGET": site.grpc_address,
    }
    process = await asyncio.create_subprocess_exec(
        *shell,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(100):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def _say(visit: Visit, message: str, *, tokens: str, opened: bool = False) -> None:
    if not opened:
        await visit.open("playground")
    await visit.page.get_by_label("Longest answer, tokens").fill(tokens)
    await visit.page.get_by_role("textbox", name="Message", exact=True).fill(message)
    await visit.page.keyboard.press("Enter")


async def _running(site: Deployment) -> int:
    return sum(load.running_requests for load in (await site.loads()).values())
