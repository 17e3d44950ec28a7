"""Meta-evaluation: the agreement of a judge with people."""
