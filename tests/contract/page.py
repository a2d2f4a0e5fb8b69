"""The examples of docs/clients.md."""

import re
from pathlib import Path

import pytest

from tests.contract.site import Site
from tests.gateway.harness import MODEL

_PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


def example(heading: str, language: str = "python") -> str:
    """The first example below a heading."""
    section = _PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def variables(site: Site) -> dict[str, str]:
    """What the examples take from the environment."""
    return {"WEIR_URL": site.root, "WEIR_API_KEY": site.secret(), "WEIR_MODEL": MODEL}


def run(site: Site, heading: str) -> None:
    """Runs a Python example; blocks."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables(site).items():
            patch.setenv(name, value)
        exec(compile(example(heading), str(_PAGE), "exec"), {})
