"""The examples of docs/clients.md work as pasted."""

import asyncio
import os

import pytest

from tests.contract import page
from tests.contract.node_sdk import FOLDER, missing, node_binary
from tests.contract.site import Site, in_thread

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("heading", ["OpenAI, Python and Node", "Anthropic", "LangChain"])
async def test_an_example(site: Site, heading: str, capsys: pytest.CaptureFixture[str]) -> None:
    site.plays("red", ", blue")
    await in_thread(lambda: page.run(site, heading))
    assert "red, blue" in capsys.readouterr().out


@pytest.mark.needs("node")
@pytest.mark.skipif(bool(missing()), reason=missing() or "all is there")
async def test_the_example_for_node(site: Site) -> None:
    site.plays("red", ", blue")
    process = await asyncio.create_subprocess_exec(
        node_binary(),
        "--input-type=module",
        "--eval",
        page.example("OpenAI, Python and Node", "js"),
        cwd=FOLDER,
        env=os.environ | page.variables(site),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    assert out.decode().strip() == "red, blue"
