"""A plan with few places, and the tenants that have it."""

CAPACITY = 10_000_000
SLOTS = 5
# One unit a day flows back: a bucket shows every debit and credit to the unit.
NARROW = {
    "id": "narrow",
    "limits": [
        {"id": "slots", "resource": "concurrency", "limit": SLOTS},
        {"id": "requests", "resource": "requests", "rate": "1/day", "burst": CAPACITY},
        {"id": "tokens", "resource": "tokens", "rate": "1/day", "burst": CAPACITY},
    ],
}
NARROW_TENANTS = {"leaving": {"plan": "narrow"}, "rushing": {"plan": "narrow"}}
