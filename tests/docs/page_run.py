"""A page's blocks, run in their order in one folder against one stack."""

import contextlib
import os
import subprocess
import time
from pathlib import Path
from unittest import mock

from tests.docs.blocks import Block
from tests.docs.commands import Commands
from tests.docs.formats import check, run_sql
from tests.docs.forwarded import Forwarding
from tests.docs.site import DocsStack

_BLOCK_S = 200
# What a block sets, the next one finds; an HTTP error fails a block.
_BEFORE = """\
set -aeuo pipefail
curl() { command curl --fail-with-body --max-time 60 "$@"; }
[ -f "$BLOCKS/variables" ] && . "$BLOCKS/variables"
"""
_AFTER = '\ndeclare -px | grep -v "^declare -[a-z]* [A-Z]*PATH=" > "$BLOCKS/variables"\n'


class PageRun:
    """Runs blocks of one page; `close` when done."""

    def __init__(self, stack: DocsStack, folder: Path, *, really: bool = False) -> None:
        self._stack = stack
        self._own, self._folder = folder / "own", folder / "page"
        self._own.mkdir()
        self._folder.mkdir()
        self._forwarding = Forwarding(self._own, Commands(really=really))
        (self._folder / "directory.yaml").write_text(stack.directory.read_text())
        # What pages call the folder of a model.
        (self._folder / "FOLDER").symlink_to(stack.model_folder, target_is_directory=True)
        beside = self._folder / ".venv"
        beside.mkdir()
        (beside / "bin").symlink_to(self._forwarding.folder)

    def run(self, block: Block) -> None:
        """Runs a block; an AssertionError or what the block raised tells of its failure."""
        text = self._stack.told_to(block.text)
        if block.language == "sh":
            self._shell(block, text)
        elif block.language == "console":
            commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
            self._shell(block, "\n".join(commands) + "\n")
        elif block.language == "python":
            self._python(block, text)
        elif block.language == "sql":
            run_sql(block, self._stack.state)
        else:
            check(block, self._own)

    def close(self) -> None:
        self._forwarding.close()

    def _python(self, block: Block, text: str) -> None:
        program = compile(text, str(block), "exec")
        with (
            contextlib.chdir(self._folder),
            mock.patch.dict(os.environ, self._stack.environment()),
            contextlib.redirect_stdout(None),
        ):
            exec(program, {"__name__": "__main__"})

    def _shell(self, block: Block, text: str) -> None:
        script, output = self._own / "block.sh", self._own / "output"
        script.write_text(_BEFORE + text + _AFTER)
        with output.open("wb") as written:
            process = subprocess.Popen(
                ["bash", str(script)],
                cwd=self._folder,
                env={**os.environ, **self._stack.environment(), **self._shell_environment()},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
            ends_at = time.monotonic() + _BLOCK_S
            while process.poll() is None and time.monotonic() < ends_at:
                self._forwarding.serve_one()
            process.kill()
        assert process.wait(10) == 0, f"{block}:\n{text}\n{output.read_text()}"

    def _shell_environment(self) -> dict[str, str]:
        path = f"{self._forwarding.folder}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "BLOCKS": str(self._own), "STATE": str(self._stack.state)}
