"""Tests and measures: chain diagnostics, tests of samplers, brute-force oracles, calibration."""

from atoll.diagnostics.calibration import (
    ReliabilityCurve,
    brier_score,
    entropy,
    expected_calibration_error,
    reliability_curve,
)
from atoll.diagnostics.convergence import (
    ess_bulk,
    ess_tail,
    mcse_mean,
    rank_r_hat,
    summarise,
    to_arviz,
    verdict,
)
from atoll.diagnostics.geweke import GewekeResult, geweke_table, geweke_test
from atoll.diagnostics.oracles import (
    GridPosterior,
    QuadraturePosterior,
    normal_grid,
    quadrature_over_grid,
    quadrature_posterior,
)
from atoll.diagnostics.sbc import (
    CalibrationResult,
    rank_uniformity_p_values,
    simulation_based_calibration,
)
from atoll.diagnostics.stacking import stacking_weights

__all__ = [
    "CalibrationResult",
    "GewekeResult",
    "GridPosterior",
    "QuadraturePosterior",
    "ReliabilityCurve",
    "brier_score",
    "entropy",
    "ess_bulk",
    "ess_tail",
    "expected_calibration_error",
    "geweke_table",
    "geweke_test",
    "mcse_mean",
    "normal_grid",
    "quadrature_over_grid",
    "quadrature_posterior",
    "rank_r_hat",
    "rank_uniformity_p_values",
    "reliability_curve",
    "simulation_based_calibration",
    "stacking_weights",
    "summarise",
    "to_arviz",
    "verdict",
]
