"""A peer as a process: orders in, answers out, a line of JSON each.

It stays loaded between orders, so that ours and the peers are measured in turn without loading
a model for each turn. Only the standard library and what every peer's environment has (numpy).

Orders: `{"do": "batch", "streams", "prompt", "output", "seed"}` computes a closed batch, every
stream to exactly `output` tokens, greedily, without a warm prefix; the answer has `wall_s`.
`{"do": "logits", "token_ids": [...], "to": path}` saves logits [tokens, vocabulary] as fp32;
the answer has `rows`, or `{"rows": null}` where the engine gives none. `{"do": "stop"}` ends it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.workload import Shape, random_prompts

Batch = Callable[[list[list[int]], int], None]
Logits = Callable[[list[int]], Any]


def take_stdout() -> int:
    """Keep stdout for the answers; what engines print there goes to stderr.

    Call it before the engine is imported: its child processes inherit what is left.
    """
    sys.stdout.flush()
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def serve(answers: int, batch: Batch, logits: Logits | None = None) -> None:
    """Answer orders until the end of them.

    Args:
        answers: from `take_stdout`.
        batch: (prompts, output tokens of each) computes them all.
        logits: token ids to an array [tokens, vocabulary]; None: the engine gives none.
    """
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "stop":
            return
        _answer(answers, _obey(order, batch, logits))


def _obey(order: dict[str, Any], batch: Batch, logits: Logits | None) -> dict[str, Any]:
    if order["do"] == "batch":
        shape = Shape(order["streams"], order["prompt"], order["output"])
        prompts = random_prompts(shape, order["seed"])
        start = time.perf_counter()
        batch(prompts, shape.output)
        return {"wall_s": time.perf_counter() - start}
    if logits is None:
        return {"rows": None}
    rows = logits(order["token_ids"])
    import_module("numpy").save(order["to"], rows)
    return {"rows": len(rows)}


def _answer(answers: int, answer: dict[str, Any]) -> None:
    os.write(answers, (json.dumps(answer) + "\n").encode())
