"""Golden sets in their life: drafts from documents, review, health, division,
import."""
