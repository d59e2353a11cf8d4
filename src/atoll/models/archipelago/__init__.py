"""Archipelago (Adams & Ghahramani 2009, paper 000): classes as islands in a sea of rejections.

prior: K functions under one kernel C(θ), log θ normal; optionally a kernel each, optionally mixed.
likelihood: a softmax over the classes and one more outcome, "rejected", whose function is zero.
inference: the latent history of the generative process, by Markov chain Monte Carlo.

    x ~ π      g_k ~ GP(0, C(θ))      x is kept with label k w.p. exp g_k(x) / (1 + Λ(x)),
                                      and rejected w.p. 1 / (1 + Λ(x)),  Λ = Σ_k exp g_k

The package follows the paper. What the paper has, and where it is:

===============  ===================================  =========================================
in the paper     what it is                           here
===============  ===================================  =========================================
equation 1       P(class | x) of a row that is kept   likelihood.class_probabilities
equation 2       density of a row that is kept        likelihood.log_density
equation 3       Z, of which 1/Z is estimated         likelihood.inverse_norm
equation 4       density of a row and its label       likelihood.log_prob
section 2.1      the Gaussian processes               functions.KnownFunctions
equation 5       what becomes of a proposal           likelihood.sample
algorithm 1      the generative process               process.run_forward
algorithm 1      labelled rows from the prior         process.sample_prior
equation 6       predicted classes                    prediction.ArchipelagoPosterior.log_proba
equation 7       equation 8 summed over rejections    joint.log_orders
equation 8       the joint, with the factor it lacks  joint.log_joint
section 3        the latent history                   state.ArchipelagoState
equations 9, 10  one rejection more, or one fewer     paper_sweep.add_or_remove
equation 11      a rejection in another place         paper_sweep.relocate
equation 12      the functions given all rows         joint.RowFactors.log_density
section 3.3      their Hamiltonian step               paper_sweep.sample_function
section 3.4      θ, with the functions held           paper_sweep.sample_log_parameters
section 3.4      the base density                     sweep.sample_base
section 3.5      fantasies of a class                 prediction.ArchipelagoPosterior.sample
section 5.1      base densities near the data         base.choose_base
section 5.2      functions that depend on each other  functions.mixing_matrix
===============  ===================================  =========================================

Ours, beyond the paper: `sweep`, with rejections renewed as a block and all functions moved at once,
its Hamiltonian steps in `steps` and `together`; `chain`, where it starts and what it records;
and `engine`, for more rows than chains take, which needs JAX to fit and is imported by whoever uses
it. How far the islands' word on classes counts is in `atoll.models.belief`.
"""

from atoll.models.archipelago.base import BASE_DENSITIES, acceptance_remark, choose_base
from atoll.models.archipelago.chain import SWEEPS, sampler
from atoll.models.archipelago.functions import Setting, prior_of_islands
from atoll.models.archipelago.likelihood import REJECTED, UNLABELLED
from atoll.models.archipelago.prediction import ArchipelagoPosterior, make_posterior
from atoll.models.archipelago.process import TooManyRejections, sample_prior
from atoll.models.archipelago.state import ArchipelagoState, latent_at, outcomes_at

__all__ = [
    "BASE_DENSITIES",
    "REJECTED",
    "SWEEPS",
    "UNLABELLED",
    "ArchipelagoPosterior",
    "ArchipelagoState",
    "Setting",
    "TooManyRejections",
    "acceptance_remark",
    "choose_base",
    "latent_at",
    "make_posterior",
    "outcomes_at",
    "prior_of_islands",
    "sample_prior",
    "sampler",
]
