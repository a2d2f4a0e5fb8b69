"""A plan that changes requests in place of refusing them."""

BUCKET = 300
LESSER = {
    "id": "lesser",
    "limits": [{"id": "tokens", "resource": "tokens", "rate": "1/day", "burst": BUCKET}],
    "policy": {
        "degradations": ["lower_max_new_tokens", "cheaper_sampling"],
        "degradation": {"min_new_tokens": 4},
    },
}
