"""What a folder says about its RAG system. Files are read and parsed, never imported or executed."""
