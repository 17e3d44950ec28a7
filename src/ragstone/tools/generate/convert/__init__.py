"""Golden sets converted to native JSONL."""
