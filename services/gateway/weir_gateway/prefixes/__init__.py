"""Prefixes: named and versioned beginnings of prompts that a tenant's requests share."""
