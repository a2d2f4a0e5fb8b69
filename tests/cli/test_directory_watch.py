"""What a terminal is told of edits of the directory file, by a real gateway."""

import asyncio
from pathlib import Path

from tests.gateway.harness import eventually, running_gateway
from weir_cli.stack.directory_watch import DirectoryWatch
from weir_core.tasks import end_task


async def test_an_edit_that_is_taken_and_one_that_is_refused_are_told(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, open_metrics=True) as gateway:
        said: list[str] = []
        warned: list[str] = []
        watch = DirectoryWatch(
            gateway.directory,
            lambda: gateway.app.http_address,
            warned.append,
            said.append,
            pause_s=0.05,
        )
        task = asyncio.create_task(watch.run())
        try:
            await eventually(lambda: watch.version)
            document = gateway.document | {"plans": [*gateway.document["plans"], {"id": "more"}]}
            await gateway.reload(document)
            await eventually(lambda: said)
            assert said == [f"directory taken, version {watch.version}: {gateway.directory}"]
            await gateway.reload(document | {"plans": []})
            await eventually(lambda: warned)
            assert "the last good version stays in force" in warned[0]
            assert "there is no plan 'team'" in warned[0]
        finally:
            await end_task(task)
        assert (len(said), len(warned)) == (1, 1)
