"""Every code block of every page is run, or says why it is not.

The stack serves the model that computes nothing. A command that serves until Ctrl-C has its
arguments checked here; `make soak` starts each `weir up` for one answer.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.default_model import default_model_folder
from tests.docs.blocks import Block, blocks_of, pages
from tests.docs.page_run import PageRun
from tests.docs.site import DocsStack, docs_stack

# Pages whose blocks are run with what they need by other tests, and how many those run.
ELSEWHERE = {"docs/clients.md": ("tests/contract/test_page.py", 5)}
LANGUAGES = {"sh", "console", "python", "yaml", "json", "toml", "sql", "text", "js"}
# By page: why which of its blocks are not run. A new one is a decision, not a slip.
NOT_RUN = {
    "README.md": ["fetches this repository"],
    "README.zh.md": ["fetches this repository"],
    "docs/engines.md": ["needs vLLM", "needs llama.cpp", "needs llama-cpp-python"],
    "docs/envoy.md": ["needs Envoy; tests/ratelimiter/test_envoy_proxy.py starts one"],
    "docs/models.md": [
        "fetches and converts hundreds of megabytes; tests/cli/test_models.py does so in small",
        "measures for minutes; tests/worker/numerics/test_rotation.py does so in small",
    ],
    "docs/scaling.md": ["takes a worker away; tests/cli/test_workers.py does"],
    "docs/simulator.md": ["needs a published trace"],
    "docs/start.md": ["the tests set this up themselves"],
    "docs/traces.md": [
        "needs Phoenix; tests/e2e/test_phoenix.py starts one",
        "needs an image of Jaeger",
    ],
    "libs/weir_client/README.md": ["installs; tests/client/test_wheel_alone.py does"],
    "libs/weir_core/README.md": ["a part of a service's __main__"],
}
# Run with the default model too, in the long runs.
_ASKING = (
    "README.md",
    "docs/start.md",
    "docs/api/responses.md",
    "docs/api/embeddings.md",
    "docs/batches.md",
    "docs/idempotency.md",
    "docs/jobs.md",
    "docs/sessions.md",
    "docs/explain.md",
    "libs/weir_client/README.md",
)
# Checked to be the same, block by block, by tests/repo/test_site.py.
SAME = {"README.zh.md": "README.md"}

_BLOCKS = {page: blocks_of(page) for page in pages()}
_RUN = [page for page, blocks in _BLOCKS.items() if blocks and page not in {*ELSEWHERE, *SAME}]


def _to_run(page: str) -> list[Block]:
    return [block for block in _BLOCKS[page] if not block.reason]


def _starts(page: str) -> bool:
    return any(
        block.language == "sh" and re.search(r"weir up|make run", block.text)
        for block in _to_run(page)
    )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocsStack]:
    with docs_stack(tmp_path_factory.mktemp("docs")) as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", _RUN)
def test_the_blocks_of_a_page_work(stack: DocsStack, page: str, tmp_path: Path) -> None:
    run = PageRun(stack, tmp_path)
    try:
        for block in _to_run(page):
            run.run(block)
    finally:
        run.close()


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("page", [page for page in _RUN if _starts(page)])
def test_every_stack_that_a_page_starts_answers(
    stack: DocsStack, page: str, tmp_path: Path
) -> None:
    run = PageRun(stack, tmp_path, really=True)
    try:
        for block in _to_run(page):
            run.run(block)
    finally:
        run.close()


@pytest.mark.soak
@pytest.mark.model
@pytest.mark.timeout(900)
def test_pages_that_ask_for_answers_work_with_a_model_that_gives_some(tmp_path: Path) -> None:
    home = tmp_path / "stack"
    home.mkdir()
    with docs_stack(home, default_model_folder()) as stack:
        for page in _ASKING:
            folder = tmp_path / page.replace("/", "-")
            folder.mkdir()
            run = PageRun(stack, folder)
            try:
                for block in _to_run(page):
                    run.run(block)
            finally:
                run.close()


def test_every_block_names_a_language_that_is_run() -> None:
    unknown = [
        str(block)
        for blocks in _BLOCKS.values()
        for block in blocks
        if block.language not in LANGUAGES and not block.reason
    ]
    assert unknown == []


def test_what_is_not_run_is_told_here() -> None:
    told = {
        page: reasons
        for page, blocks in _BLOCKS.items()
        if (reasons := [block.reason for block in blocks if block.reason])
    }
    assert told == NOT_RUN


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_page_that_is_run_elsewhere_is_named_there(repo_root: Path, page: str) -> None:
    file, count = ELSEWHERE[page]
    assert page in (repo_root / file).read_text(encoding="utf-8")
    assert len(_BLOCKS[page]) == count
