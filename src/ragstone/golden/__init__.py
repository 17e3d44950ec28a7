"""Reading and validating golden sets."""
