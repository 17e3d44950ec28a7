"""How far repeated judgements of recorded answers move."""
