"""LLM judges: one judge over a small provider port, implemented for OpenAI and
Anthropic."""
