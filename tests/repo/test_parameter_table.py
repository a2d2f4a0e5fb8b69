"""The table of parameters in docs/configuration.md tells the defaults of the code."""

import re
from dataclasses import asdict
from pathlib import Path

from weir_core.directory.parameters import Parameters


def test_the_page_has_every_parameter_with_its_default(repo_root: Path) -> None:
    page = (repo_root / "docs" / "configuration.md").read_text(encoding="utf-8")
    table = page[page.index("### Parameters") :]
    told = {name: float(value) for name, value in re.findall(r"\| `(\w+)` \| ([\d.]+)", table)}
    defaults = asdict(Parameters())
    defaults["alpha"] = defaults.pop("alpha_millis") / 1000
    assert told == defaults
