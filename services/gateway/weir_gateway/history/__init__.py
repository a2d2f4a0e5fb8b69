"""What a gateway has seen of its requests and heard of the fleet, over the last day."""
