"""Attacks servers in every way that is known, and says what polite clients saw meanwhile."""
