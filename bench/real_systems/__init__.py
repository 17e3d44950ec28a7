"""Two small RAG systems, each with a corpus and a golden set of its own: what `real_changes.py` changes and gates."""
