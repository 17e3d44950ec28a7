"""The judge compared with human labels."""
