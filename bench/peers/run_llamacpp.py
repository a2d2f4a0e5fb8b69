"""llama.cpp through its C interface, on the quantised file itself.

A batch is the prompts one after another and then a decode of all sequences a step, as its
server does. The next tokens are drawn at random: sampling costs nothing, which favours it.
"""

import random
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.llamacpp_params import model_params
from bench.peers.runner import serve, take_stdout

_BATCH = 2048
_MOST_STREAMS = 64


class LlamaCpp:
    """One loaded model; a context for each batch.

    Raises:
        RuntimeError: the model does not load, or a decode fails.
    """

    def __init__(self, model_file: str) -> None:
        self._lib: Any = import_module("llama_cpp")
        self._lib.llama_backend_init()
        params = model_params(self._lib)
        self._model = self._lib.llama_model_load_from_file(model_file.encode(), params)
        if not self._model:
            raise RuntimeError(f"{model_file} does not load")
        self._rows = self._lib.llama_batch_init(_BATCH, 0, _MOST_STREAMS)
        self._draw = random.Random(7)

    def batch(self, prompts: list[list[int]], output: int) -> None:
        context = self._context(sum(len(ids) + output for ids in prompts), len(prompts))
        try:
            for stream, ids in enumerate(prompts):
                self._prefill(context, stream, ids)
            for step in range(output):
                for stream, ids in enumerate(prompts):
                    token = self._draw.randrange(100, 40_000)
                    self._put(stream, token, len(ids) + step, stream, logits=True)
                self._decode(context, len(prompts))
        finally:
            self._lib.llama_free(context)

    def logits(self, token_ids: Sequence[int]) -> Any:
        """[tokens, vocabulary], at most 2,048 tokens."""
        numpy: Any = import_module("numpy")
        context = self._context(len(token_ids), 1)
        try:
            for position, token in enumerate(token_ids):
                self._put(position, token, position, 0, logits=True)
            self._decode(context, len(token_ids))
            vocabulary = self._lib.llama_vocab_n_tokens(
                self._lib.llama_model_get_vocab(self._model)
            )
            rows = [
                numpy.ctypeslib.as_array(
                    self._lib.llama_get_logits_ith(context, row), shape=(vocabulary,)
                ).copy()
                for row in range(len(token_ids))
            ]
            return numpy.stack(rows)
        finally:
            self._lib.llama_free(context)

    def _context(self, tokens: int, streams: int) -> Any:
        params = self._lib.llama_context_default_params()
        params.n_ctx = tokens
        params.n_batch, params.n_ubatch, params.n_seq_max = _BATCH, 512, streams
        params.n_threads = params.n_threads_batch = 2
        params.kv_unified = True
        return self._lib.llama_init_from_model(self._model, params)

    def _prefill(self, context: Any, stream: int, ids: list[int]) -> None:
        last = len(ids) - 1
        for position, token in enumerate(ids):
            self._put(position, token, position, stream, logits=position == last)
        self._decode(context, len(ids))

    def _put(self, row: int, token: int, position: int, stream: int, *, logits: bool) -> None:
        rows = self._rows
        rows.token[row], rows.pos[row] = token, position
        rows.n_seq_id[row], rows.seq_id[row][0], rows.logits[row] = 1, stream, logits

    def _decode(self, context: Any, rows: int) -> None:
        self._rows.n_tokens = rows
        code = self._lib.llama_decode(context, self._rows)
        if code:
            raise RuntimeError(f"llama_decode returned {code}")


def main(model_file: str) -> None:
    answers = take_stdout()
    engine = LlamaCpp(model_file)
    serve(answers, engine.batch, engine.logits)


if __name__ == "__main__":
    main(sys.argv[1])
