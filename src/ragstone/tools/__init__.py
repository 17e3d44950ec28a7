"""What the gate doesn't need, one folder for each tool. Only the entry points import
from here."""
