"""What a request needs of its tenant's KV quota."""


def kv_tokens(prompt_tokens: int, max_new_tokens: int) -> int:
    """Tokens that it can come to hold KV for; the last one is sampled and never computed."""
    return prompt_tokens + max_new_tokens - 1
