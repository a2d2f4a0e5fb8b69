"""Sessions: conversations whose KV a worker keeps between turns."""
