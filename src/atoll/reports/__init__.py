"""A fitted model told in one self-contained HTML file."""

from atoll.estimators.held_out import HeldOut, held_out_probabilities
from atoll.reports.report import write_report

__all__ = ["HeldOut", "held_out_probabilities", "write_report"]
