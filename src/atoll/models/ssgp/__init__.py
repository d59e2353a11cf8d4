"""Semi-supervised Gaussian processes of paper 002 (SSGP; Sindhwani, Chu & Keerthi 2007).

prior: a kernel bent by the graph of all rows, K̃/γ_A. likelihood: probit with noise σ_n, for K
classes the multinomial probit; a normal for regression. inference: expectation propagation at the
labelled rows, or Markov chains there; parameters by evidence.

    f ~ GP(0, K/γ_A)
    P(𝒢 | f) ∝ exp(−½ γ_I f_Dᵀ L^p f_D)            all rows D, labelled or not      eq. 3
    f | 𝒢 ~ GP(0, K̃/γ_A), M = (γ_I/γ_A) L^p                                         eq. 5
    z_n = f(x_n) + ε, ε ~ N(0, σ_n²);  y_n = 1 where z_n > 0         labelled rows L

so that the posterior lives on the l labelled rows: given K̃_LL everything is l × l. σ_n is divided
out, and inference sees K̃/(γ_A σ_n²) and noise of variance one.

For K classes there is one f and one z per class, and z_y > z_k for every other k: a normal inside a
cone, from which chains draw. Its mass, the evidence, is found by the same expectation propagation
over the l (K − 1) differences u = z_y − z_k, all of them positive (Cunningham, Hennig &
Lacoste-Julien 2011). The multinomial probit's variational bound would factor over rows, which
σ_n = 1e-4 makes all but one number in a cluster.

In the paper's order: `process` (section 3.2, the kernel at the labelled rows), `evidence` (section
3.3, model selection, by the `search`), `posterior` (prediction) and `regression`, which the paper
names and leaves out.
"""

from atoll.models.ssgp.evidence import (
    LARGEST_SIGNAL,
    NOISE,
    Fit,
    Labels,
    Selection,
    difference_gram,
    evidence_weights,
    fit_at,
    fit_grid,
    maximise_evidence,
    propagate_labels,
    select_best,
    select_from,
    weigh,
)
from atoll.models.ssgp.posterior import (
    N_CHAINS,
    Component,
    Lengths,
    SSGPPosterior,
    left_out,
    propagated_component,
    sample_auxiliary,
    sampled_component,
)
from atoll.models.ssgp.process import (
    AMBIENT_WEIGHTS,
    LENGTH_FACTORS,
    RATIOS,
    Problem,
    base_kernel,
    warp,
    warped_grams,
)
from atoll.models.ssgp.regression import (
    RegressionPosterior,
    maximise_regression,
    regression_at,
    regression_posterior,
)

__all__ = [
    "AMBIENT_WEIGHTS",
    "LARGEST_SIGNAL",
    "LENGTH_FACTORS",
    "NOISE",
    "N_CHAINS",
    "RATIOS",
    "Component",
    "Fit",
    "Labels",
    "Lengths",
    "Problem",
    "RegressionPosterior",
    "SSGPPosterior",
    "Selection",
    "base_kernel",
    "difference_gram",
    "evidence_weights",
    "fit_at",
    "fit_grid",
    "left_out",
    "maximise_evidence",
    "maximise_regression",
    "propagate_labels",
    "propagated_component",
    "regression_at",
    "regression_posterior",
    "sample_auxiliary",
    "sampled_component",
    "select_best",
    "select_from",
    "warp",
    "warped_grams",
    "weigh",
]
