"""A process that behaves as a service does: `dummy_service.py BEHAVIOUR [ARGUMENT]`.

`--worker-id=ID` is told with `ready`.
"""

import json
import os
import signal
import sys
import threading
import time
from types import FrameType


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, "service": "dummy", "pid": os.getpid()} | fields), flush=True)


def leave(_number: int, _frame: FrameType | None) -> None:
    print("drained", file=sys.stderr, flush=True)
    sys.exit(0)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
    behaviour, argument = (*words, "", "")[:2]
    signal.signal(signal.SIGTERM, leave)
    if behaviour == "fails":
        say("failed", error=argument)
        sys.exit(1)
    if behaviour == "crashes":
        raise RuntimeError(argument)
    if behaviour == "never-ready":
        signal.pause()
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "fails-and-counts":
        with open(argument, "a") as file:
            file.write("x")
        say("failed", error="never")
        sys.exit(1)
    if behaviour == "fails-second-time":
        with open(argument, "a+") as file:
            file.seek(0)
            if len(file.read()) == 1:
                file.write("x")
                say("failed", error="not this time")
                sys.exit(1)
            file.write("x")
    worker_id = options.get("worker-id", "")
    say("ready", grpc="127.0.0.1:1", session=os.getsid(0), worker_id=worker_id)
    if behaviour == "chatty":
        for _ in range(20_000):
            print("x" * 100)
        print("all printed", flush=True)
    threading.Thread(target=watch_parent, args=(os.getppid(),), daemon=True).start()
    while True:
        signal.pause()


def watch_parent(pid: int) -> None:
    while os.getppid() == pid:
        time.sleep(0.05)
    os._exit(0)


if __name__ == "__main__":
    main()
