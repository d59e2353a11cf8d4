"""atoll: calibrated class probabilities from many rows and few labels."""

__version__ = "0.1.0"
