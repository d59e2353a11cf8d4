"""Algorithms over functions; no model is named here."""
