"""Real processes: the ready line, signals, drain, a dead supervisor, a taken port."""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx2
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.core.support import SERVICE
from weir_core.errors.startup import StartupError
from weir_core.process.address import join_address, listen, split_address
from weir_core.rpc.channel import open_channel

LIMIT_S = 20.0


class Demo:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.ready: dict[str, Any] = {}

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            return (await self.process.stdout.readline()).decode().strip()

    async def rest(self) -> list[str]:
        """What is still written, once the process has ended."""
        async with asyncio.timeout(LIMIT_S):
            out, _ = await self.process.communicate()
        return out.decode().split("\n")[:-1]


@asynccontextmanager
async def demo(*argv: str) -> AsyncIterator[Demo]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.core.demo_service", *argv, stdout=PIPE, stderr=PIPE
    )
    running = Demo(process)
    try:
        line = await running.line()
        while not line.startswith("{"):
            assert line, "the process ended without a word to its supervisor"
            line = await running.line()
        running.ready = json.loads(line)
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_ready_line_health_drain_order_and_exit_status() -> None:
    async with demo("--grace-s", "0.2") as service:
        ready = service.ready
        assert (ready["event"], ready["service"]) == ("ready", "demo")
        assert ready["pid"] == service.process.pid
        async with open_channel(ready["grpc"], name="demo") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(
                health_pb2.HealthCheckRequest(service="weir.worker.v1.WorkerService")
            )
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            loop = await channel.unary_unary(f"/{SERVICE}/Loop")(b"", timeout=LIMIT_S)
            assert loop.startswith(b"uvloop")
            watched = await channel.unary_unary(f"/{SERVICE}/Watched")(b"", timeout=LIMIT_S)
            assert int(watched) < 20_000, "the collector looks through all that was imported"
            hold = channel.unary_stream(f"/{SERVICE}/Hold")(b"")
            assert await hold.read() == b"started"
            async with httpx2.AsyncClient(base_url=f"http://{ready['metrics']}") as http:
                assert (await http.get("/healthz")).status_code == 200
                assert "grpc_server_in_flight" in (await http.get("/metrics")).text
            service.process.send_signal(signal.SIGTERM)
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await hold.read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await service.rest() == ["drain", "stream ended", "close second", "close first"]
        assert service.process.returncode == 0


async def test_a_second_signal_skips_the_drain_and_a_bounded_one_ends_by_itself() -> None:
    async with demo("--slow-drain") as service:
        service.process.send_signal(signal.SIGINT)
        assert await service.line() == "drain"
        service.process.send_signal(signal.SIGINT)
        assert await service.rest() == ["close second", "close first"]
        assert service.process.returncode == 0
    async with demo("--slow-drain", "--drain-s", "0.2") as service:
        service.process.send_signal(signal.SIGTERM)
        assert (await service.rest())[-1] == "close first"
        assert service.process.returncode == 0


async def test_what_does_not_hear_its_cancellation_keeps_no_process_alive() -> None:
    async with demo("--deaf") as service:
        service.process.send_signal(signal.SIGTERM)
        assert await service.rest() == ["drain", "close second", "close first"]
        assert service.process.returncode == 1


async def test_supervised_it_ignores_ctrl_c_and_ends_when_the_supervisor_is_killed() -> None:
    # The shell is the supervisor: it starts the service and prints its pid.
    script = f"{sys.executable} -m tests.core.demo_service --supervisor-pid $$ --drain-s 1 & wait"
    supervisor = await asyncio.create_subprocess_exec("sh", "-c", script, stdout=PIPE, stderr=PIPE)
    service = Demo(supervisor)
    pid = json.loads(await service.line())["pid"]
    os.kill(pid, signal.SIGINT)
    await asyncio.sleep(0.3)
    os.kill(pid, 0)
    supervisor.kill()
    # The pipe ends only when the service has ended too.
    assert await service.rest() == ["drain", "close second", "close first"]


async def test_a_taken_port_is_one_line_with_address_reason_and_knob() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    try:
        for flag in ("--grpc-address", "--metrics-address"):
            async with demo(flag, address) as service:
                assert service.process.stderr is not None
                err = (await service.process.stderr.read()).decode().splitlines()
                await service.rest()
                assert service.process.returncode == 1
                [line] = [line for line in err if not line.startswith("{")]
                assert line.startswith("weir-demo: cannot listen on " + address)
                assert "in use" in line
                assert flag.strip("-").replace("-", "_") in line.replace("-", "_")
                assert service.ready["event"] == "failed"
    finally:
        taken.close()


async def test_two_instances_never_share_a_port_silently() -> None:
    async with demo() as first, demo("--grpc-address", first.ready["grpc"]) as second:
        assert second.ready["event"] == "failed"
        assert first.ready["grpc"] in second.ready["error"]


async def test_bad_settings_are_one_line_and_status_2() -> None:
    async with demo("--grace-s", "-1") as service:
        assert service.process.stderr is not None
        err = (await service.process.stderr.read()).decode().splitlines()
        await service.rest()
        assert service.process.returncode == 2
        assert len(err) == 1
        assert "grace_s" in err[0]
        assert service.ready["event"] == "failed"


async def test_a_signal_while_still_wiring_ends_it_and_releases_what_there_is() -> None:
    async with demo("--wiring", "endless") as service:
        service.process.send_signal(signal.SIGTERM)
        assert await service.rest() == ["close half-wired"]
        assert service.process.returncode == 0


async def test_a_fault_in_the_wiring_is_one_line_and_the_log_says_where() -> None:
    async with demo("--wiring", "broken") as service:
        assert service.process.stderr is not None
        err = (await service.process.stderr.read()).decode().splitlines()
        await service.rest()
        assert service.process.returncode == 1
        assert service.ready["event"] == "failed"
        assert err[-1] == "weir-demo: KeyError; the log says where"
        [logged] = [json.loads(line) for line in err if '"service_failed"' in line]
        assert any(frame.endswith(" wire") for frame in logged["exception"][0]["frames"])
        assert "not there" not in "".join(err)


@pytest.mark.parametrize("address", ["", "nohost", ":1", "h:", "h:x", "h:70000", "h:-1", "h:²"])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    with pytest.raises(StartupError, match="--grpc-address"):
        split_address(address, "--grpc-address")


def test_addresses_are_read_and_written() -> None:
    assert split_address("[::1]:50051", "k") == ("::1", 50051)
    assert join_address("::1", 1) == "[::1]:1"
    assert split_address("localhost:0", "k") == ("localhost", 0)
    with pytest.raises(StartupError, match=r"cannot listen on 192\.0\.2\.1:1.*change k"):
        listen("192.0.2.1:1", "k")
