"""`python -m ragstone`."""

from ragstone.cli import main

main()
