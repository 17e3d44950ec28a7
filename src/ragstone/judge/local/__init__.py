"""Judging with ONNX models from a local folder: the extra `ragstone[local]`; nothing is downloaded."""
