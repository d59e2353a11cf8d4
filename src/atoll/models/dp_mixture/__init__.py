"""Dirichlet process mixtures of Gaussians, one per class: Kimura, Nakada, Doucet & Matsumoto.

A row y has class c with probability ρ_c (eq. 4) and, given it, comes from one of K components:

    p(y | c) = Σ_k π_ck N(y; m_ck, Σ_ck),   π_ck = v_ck Π_{l<k} (1 − v_cl)      eqs 6 to 8, 11
    v_ck ~ Be(1, α) for k < K, v_cK = 1;  ρ ~ Dir(γ);  (m, Σ) ~ NIW             eqs 5, 9, 13 to 15

A labelled row is a draw of (c, y), an unlabelled one of y alone (eqs 1 to 3). Parameters are found
at the maximum of their posterior by EM (section 2.3), or as distributions by variational Bayes;
both need the same sums over rows (`Statistics`), and these add over chunks of rows.

In the paper's order: `model` (the joint density), `em` (E-step, M-step, ascent), `starts` (where
EM begins), `prediction` (the posterior), `tempering` (how far its class probabilities are
believed), `density` (the mixture of a single class).
"""

from atoll.models.dp_mixture.density import MixtureDensity, fit_density
from atoll.models.dp_mixture.em import (
    Ascent,
    EStep,
    Online,
    Statistics,
    ascend,
    begin_online,
    e_step,
    expect,
    m_step,
    objective,
    online_step,
)
from atoll.models.dp_mixture.keeping import Keeping
from atoll.models.dp_mixture.model import (
    MapState,
    Mixture,
    State,
    VariationalState,
    default_prior,
    divergence,
    log_prior,
    log_stick_weights,
)
from atoll.models.dp_mixture.prediction import MixturePosterior, posterior
from atoll.models.dp_mixture.starts import (
    START_ROWS,
    Search,
    best_start,
    climb,
    fit_mixture,
    held_out,
    reservoir_sizes,
    start_state,
)
from atoll.models.dp_mixture.tempering import Tempering, weigh

__all__ = [
    "START_ROWS",
    "Ascent",
    "EStep",
    "Keeping",
    "MapState",
    "Mixture",
    "MixtureDensity",
    "MixturePosterior",
    "Online",
    "Search",
    "State",
    "Statistics",
    "Tempering",
    "VariationalState",
    "ascend",
    "begin_online",
    "best_start",
    "climb",
    "default_prior",
    "divergence",
    "e_step",
    "expect",
    "fit_density",
    "fit_mixture",
    "held_out",
    "log_prior",
    "log_stick_weights",
    "m_step",
    "objective",
    "online_step",
    "posterior",
    "reservoir_sizes",
    "start_state",
    "weigh",
]
