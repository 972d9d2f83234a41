"""What `repair` does to one broken shard: a fixed copy is written, of what can be fixed without guessing."""
