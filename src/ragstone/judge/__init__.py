"""The judge protocol, typed judgements, and the judges."""
