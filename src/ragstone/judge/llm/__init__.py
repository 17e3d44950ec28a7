"""LLM judges: one judge over a small provider port, with OpenAI and Anthropic behind it."""
