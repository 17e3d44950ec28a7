"""`ragstone golden`: examine, divide, sample, import."""
