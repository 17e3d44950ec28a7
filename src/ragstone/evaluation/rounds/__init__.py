"""Rounds: each is one time that samples are asked, judged and scored."""
