"""Rounds: in each, samples are asked, judged and scored once."""
