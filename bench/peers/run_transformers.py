"""transformers, a static batch in fp32."""

import sys
from importlib import import_module
from typing import Any

from bench.peers.runner import serve, take_stdout


def main(model_folder: str) -> None:
    answers = take_stdout()
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    torch.set_num_threads(2)
    model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    model.eval()

    def batch(prompts: list[list[int]], output: int) -> None:
        ids = torch.tensor(prompts)
        with torch.inference_mode():
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=output,
                min_new_tokens=output,
            )

    def logits(token_ids: list[int]) -> Any:
        with torch.inference_mode():
            return model(torch.tensor([token_ids])).logits[0].float().numpy()

    serve(answers, batch, logits)


if __name__ == "__main__":
    main(sys.argv[1])
