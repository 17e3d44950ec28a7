"""Sentence embeddings by a model in a folder of the user's: the extra `ragstone[local]`, nothing is downloaded."""
