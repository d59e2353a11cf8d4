"""Inference algorithms; they are handed functions and regions, and name no model."""
