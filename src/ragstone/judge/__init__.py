"""What decides: the judge protocol, its judgements, and the judges."""
