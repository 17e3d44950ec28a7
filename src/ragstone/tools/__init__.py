"""Side capabilities, each with its commands, logic and pages in one folder. The core
imports none of them."""
