"""Our posteriors beside NUTS's, on data sets that no model made: differences in standard errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

KERNEL = ConstantKernel(np.exp(2.0)) * RBF(1.0)
PRIOR = (np.array([2.0, 0.0]), np.array([1.0, 1.0]))  # a kernel that is given: deviations of one
DETAIL = 0.3  # of the sparse engine's kernel: more than its own, for it to matter here
LEAST_ESS = 100  # of either side, for a standard error to be one
ROUNDING = 2e-4  # of probabilities and log-parameters: the two sides' jitters, and float32
FALSE_ALARM = 1e-6  # chance that any comparison of the whole set is out of bounds by chance


class Lengths(NamedTuple):
    """How long both sides sample, in each of some processes."""

    ours: dict[str, int]
    nuts: dict[str, int]
    parts: int = 1


class Sides(NamedTuple):
    """Both samplers of a posterior: lengths, part -> (parameters, classes), as `quantities` has.

    Parts are chains of their own, to be run side by side.
    """

    ours: Callable[[Lengths, int], tuple]
    theirs: Callable[[Lengths, int], tuple]


class Comparison(NamedTuple):
    """One data set under one model.

    names : of the quantities
    ours, theirs, error : (q,) means of both sides, and the standard error of their difference
    ess : (2, q) effective sample sizes, ours and theirs
    """

    names: tuple[str, ...]
    ours: np.ndarray
    theirs: np.ndarray
    error: np.ndarray
    ess: np.ndarray

    @property
    def scores(self):
        return (self.ours - self.theirs) / self.error

    @property
    def bound(self):
        """Scores that all comparisons stay below, but for one set of comparisons in a million."""
        return float(norm.isf(FALSE_ALARM / (2 * len(self.names) * len(CASES))))


def mean_and_error(draws):
    """Mean, standard error and effective sample size of draws (chain, draw)."""
    from numpyro.diagnostics import effective_sample_size

    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore")
        ess = float(effective_sample_size(np.asarray(draws, dtype=float)))
    if not np.isfinite(ess):  # constant
        ess = float(np.size(draws))
    ess = min(ess, float(np.size(draws)))
    return draws.mean(), draws.std() / np.sqrt(ess), ess


def quantities(parameters, classes):
    """name -> (chain, draw): parameters, their squares, and class probabilities of rows.

    A probability is that of a class given that the row is not null, a ratio of means: its draws are
    those of the ratio's linearisation.
    """
    found = dict(parameters)
    found |= {f"{name}²": values**2 for name, values in parameters.items()}
    total = classes.sum(axis=-1)
    for i in range(classes.shape[2]):
        for k in range(1, classes.shape[3]):
            p = classes[:, :, i, k].mean() / total[:, :, i].mean()
            linear = (classes[:, :, i, k] - p * total[:, :, i]) / total[:, :, i].mean()
            found[f"P(class {k}) of row {i}"] = p + linear
    return found


def joined(parts):
    """Chains of several parts, (parameters, classes) each, as one."""
    names = parts[0][0]
    parameters = {name: np.concatenate([part[0][name] for part in parts]) for name in names}
    return parameters, np.concatenate([part[1] for part in parts])


def compare(ours, theirs):
    """ours, theirs : (parameters, classes) as `quantities` takes them."""
    a, b = quantities(*ours), quantities(*theirs)
    assert a.keys() == b.keys()
    rows = [(*mean_and_error(a[name]), *mean_and_error(b[name])) for name in a]
    mean_a, error_a, ess_a, mean_b, error_b, ess_b = np.array(rows).T
    error = np.sqrt(error_a**2 + error_b**2 + ROUNDING**2)
    return Comparison(tuple(a), mean_a, mean_b, error, np.array([ess_a, ess_b]))


# Data, and our side -------------------------------------------------------------------------------


def make_rows(n, n_classes, seed):
    """Rows, codes by a wavy rule with noise, and new rows; no model's own draws."""
    rng = np.random.default_rng([11, n, n_classes, seed])
    X = 1.3 * rng.standard_normal((n + 12, 2))
    height = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.4 * rng.standard_normal(len(X))
    cuts = np.quantile(height, np.arange(1, n_classes) / n_classes)
    codes = np.searchsorted(cuts, height)
    if len(np.unique(codes[:n])) < n_classes:
        return make_rows(n, n_classes, seed + 1000)
    return X[:n], codes[:n], X[n:]


def stream(seed, part):
    """Seeds of a part's chains; those of the first are the data set's."""
    return np.random.default_rng(seed if part == 0 else [seed, part])


def chains(sampler, rng, long, **options):
    from atoll.inference.chains import run_chains

    return run_chains(sampler, rng=rng, **options, **long.ours).draws


def nuts_side(model, *problem, seed, **more):
    """NUTS of a model of `nuts`, part by part."""
    from referees import nuts

    def sample(long, part):
        return getattr(nuts, model)(*problem, seed=seed + 1000 * part, **more, **long.nuts)

    return sample


def by_chain(values, draws):
    """Our pooled draws (chains · draws, …) as (chains, draws, …)."""
    shape = draws["log_parameters"].shape[:2]
    return np.asarray(values).reshape(*shape, *np.shape(values)[1:])


def prior_at(X):
    from atoll.kernels.hyperparameters import kernel_prior

    return kernel_prior(KERNEL, X)


def pooled(draws):
    return {
        name: values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
        for name, values in draws.items()
    }


def parameters_of(draws):
    theta = draws["log_parameters"]
    return {"log variance": theta[..., 0], "log length-scale": theta[..., 1]}


def latent_side(draws, X, new_rows, likelihood):
    """Parameters and class probabilities of a model with auxiliary variables, draw by draw."""
    from atoll.models.probit_gp import sampled_posterior

    posterior = sampled_posterior(pooled(draws), X, prior_at(X), likelihood)
    classes = [
        np.exp(likelihood.log_class_probabilities(mean, variance, phi))
        for (mean, variance), phi in zip(posterior.moments(new_rows), posterior.region_parameters)
    ]
    cuts = draws["region_parameters"]
    of_cuts = {f"cuts {j}": cuts[..., j] for j in range(cuts.shape[-1])}
    return parameters_of(draws) | of_cuts, by_chain(classes, draws)


def latent_sides(sampler, theirs, X, new_rows, likelihood, seed):
    def ours(long, part):
        draws = chains(sampler, stream(seed, part), long)
        return latent_side(draws, X, new_rows, likelihood)

    return Sides(ours, theirs)


def of_probit(n, seed, n_classes=2):
    from atoll.models import probit_gp

    X, codes, new_rows = make_rows(n, n_classes, seed)
    sampler = probit_gp.sampler(X, codes, prior_at(X), n_classes)
    if n_classes == 2:
        theirs = nuts_side("probit", X, codes, new_rows, PRIOR, seed=seed)
    else:
        theirs = nuts_side("multinomial_probit", X, codes, new_rows, PRIOR, n_classes, seed=seed)
    return latent_sides(sampler, theirs, X, new_rows, probit_gp.likelihood(n_classes), seed)


def cut_prior():
    """Mean and deviation of the first cut point and the log gap: three equally probable ranks."""
    scale = np.sqrt(1.0 + np.exp(PRIOR[0][0]))
    cuts = scale * norm.ppf([1 / 3, 2 / 3])
    return np.array([cuts[0], np.log(cuts[1] - cuts[0])]), np.array([scale, 1.0])


def of_ordinal(n, seed):
    from atoll.likelihoods.ordinal import Ordinal
    from atoll.models import ordinal_gp, probit_gp

    X, codes, new_rows = make_rows(n, 3, seed)
    family = ordinal_gp.family(X, codes, np.ones(n, dtype=bool), prior_at(X), 3, 0.0)
    sampler = probit_gp.regions_sampler(X, family, prior_at(X))
    theirs = nuts_side("ordinal", X, codes, new_rows, PRIOR, cut_prior(), seed=seed)
    return latent_sides(sampler, theirs, X, new_rows, Ordinal(0.0), seed)


def of_softmax(n, seed, n_classes=3):
    from atoll.models import softmax_gp

    X, codes, new_rows = make_rows(n, n_classes, seed)

    def ours(long, part):
        sampler = softmax_gp.sampler(X, codes, prior_at(X), n_classes)
        draws = chains(sampler, stream(seed, part), long)
        theta, weights = (pooled(draws)[name] for name in ("log_parameters", "weights"))
        posteriors = (
            softmax_gp.SoftmaxPosterior(prior_at(X), X, theta[[s]], weights[[s]])
            for s in range(len(theta))
        )
        classes = [np.exp(posterior.log_proba(new_rows)) for posterior in posteriors]
        return parameters_of(draws), by_chain(classes, draws)

    return Sides(ours, nuts_side("softmax", X, codes, new_rows, PRIOR, n_classes, seed=seed))


def of_null_category(n, seed):
    from atoll.likelihoods import null_category as likelihood
    from atoll.models import null_category

    X, codes, new_rows = make_rows(n, 2, seed)
    seen = np.arange(n) % 3 == 0
    rates, width = (0.7, 0.5), 0.4
    family = likelihood.family(codes, seen, 2, width, rates)
    sampler = null_category.sampler(X, codes, seen, prior_at(X), family)
    theirs = nuts_side("null_category", X, codes, seen, new_rows, PRIOR, width, rates, seed=seed)
    return latent_sides(sampler, theirs, X, new_rows, likelihood.NullCategory(width, 2), seed)


def of_islands(n, seed, n_classes=2):
    """Archipelago given its rejections: the moves of functions and log-parameters by turns."""
    from atoll.core.densities import Gaussian
    from atoll.models import archipelago
    from atoll.models.archipelago import sweep
    from atoll.models.archipelago.functions import gram_at_rows, kernels_at
    from atoll.models.archipelago.prediction import make_posterior
    from atoll.models.archipelago.state import make_whitened_state

    X, codes, new_rows = make_rows(n, n_classes, seed)
    codes = np.where(np.arange(n) % 2 == 0, codes, -1)
    rejections = 2.0 * np.random.default_rng(seed).standard_normal((n // 2, 2))
    prior = prior_at(X)
    base = Gaussian(np.zeros(2), np.eye(2))
    unlabelled = archipelago.UNLABELLED
    setting = archipelago.Setting(X, np.where(codes < 0, unlabelled, codes), n_classes, prior, base)

    def init(rng):
        rows = np.concatenate([X, rejections])
        theta = (prior.mean + 0.3 * rng.standard_normal(2))[None]
        kernels = kernels_at(gram_at_rows(setting, rows), theta)
        whitened = 0.1 * rng.standard_normal((len(rows), n_classes))
        return make_whitened_state(setting, rejections, kernels, whitened, np.zeros(0))

    def held(rng, state, adapt):
        state = sweep.sample_functions(rng, setting, state, adapt)
        return sweep.sample_log_parameters(rng, setting, state, adapt)

    def ours(long, part):
        rng = stream(seed, part)
        sampler = archipelago.sampler(setting)._replace(init=init, sweep=held)
        draws = chains(sampler, rng, long)
        flat = pooled(draws)
        flat["chain"] = np.zeros(len(flat["n_rejections"]), dtype=np.intp)
        posterior = make_posterior(setting, flat)
        classes = posterior.draws(new_rows, len(posterior.log_weights), rng)
        return parameters_of(draws), by_chain(classes, draws)

    theirs = nuts_side("islands", X, codes, rejections, new_rows, PRIOR, n_classes, seed=seed)
    return Sides(ours, theirs)


def of_sparse_islands(n, seed, n_classes=2):
    from atoll.models.archipelago.engine import hmc

    K = n_classes
    X, codes, _ = make_rows(n, K, seed)
    rng = np.random.default_rng(seed)
    base = 1.8 * rng.standard_normal((80, 2))
    inducing, n_labelled = X[:10], n // 3
    mean, sd = np.array([1.0, 0.0]), np.array([0.7, 0.4])
    noise = rng.standard_normal((2, n + 80, K))
    problem = (
        X[:n_labelled], np.eye(K)[codes[:n_labelled]], X[n_labelled:], base, inducing, DETAIL,
        noise,
    )  # fmt: skip
    data = hmc.SparseData(
        *problem, np.zeros((K, 10)), np.tile(np.eye(10), (K, 1, 1)), mean, mean, sd
    )
    data = hmc.SparseData(*(np.asarray(part, np.float32) for part in data))
    rows = slice(n_labelled, n_labelled + 12)

    def ours(long, part):
        sampler = hmc.sampler(data, np.zeros(2), np.arange(n))
        draws = chains(sampler, stream(seed, part), long, thin=3)
        parameters = parameters_of(draws) | {"log_norm 0": draws["log_norm"]}
        return parameters, draws["row_probabilities"][:, :, rows]

    def theirs(long, part):
        found = nuts_side("sparse_islands", problem, (mean, sd), seed=seed)(long, part)
        return found.parameters, found.classes[:, :, rows]

    return Sides(ours, theirs)


MODELS: dict[str, Callable[[int, int], Sides]] = {
    "probit": of_probit,
    "multinomial probit": partial(of_probit, n_classes=3),
    "ordinal": of_ordinal,
    "softmax, two classes": partial(of_softmax, n_classes=2),
    "softmax, three classes": of_softmax,
    "null category": of_null_category,
    "Archipelago given rejections, two classes": of_islands,
    "Archipelago given rejections, three classes": partial(of_islands, n_classes=3),
    "sparse Archipelago, two classes": of_sparse_islands,
    "sparse Archipelago, three classes": partial(of_sparse_islands, n_classes=3),
}
# Here the length-scale, or the side on which rows without a label lie, changes slowly.
TIMES = {
    "multinomial probit": 4,
    "ordinal": 4,
    "null category": 6,
    "Archipelago given rejections, three classes": 4,
}


def long(ours, nuts, parts=1):
    """Lengths from (chains, draws of each) of both sides."""
    names = ("n_chains", "n_samples")
    return Lengths(
        {**dict(zip(names, ours)), "n_warmup": 150},
        {**dict(zip(names, nuts)), "n_warmup": 300},
        parts,
    )


# These take many minutes: chains are run in parts, side by side.
LONG = {
    ("null category", 100): long((4, 4800), (3, 600)),
    ("Archipelago given rejections, two classes", 30): long((4, 6000), (3, 1200)),
    ("Archipelago given rejections, two classes", 45): long((4, 3000), (3, 1500), parts=3),
    ("Archipelago given rejections, two classes", 100): long((2, 1500), (1, 500), parts=6),
    ("Archipelago given rejections, three classes", 100): long((2, 1000), (1, 500), parts=4),
}
CASES = [(name, n, seed) for seed, n in enumerate((30, 45, 100)) for name in MODELS]


def lengths(name, n):
    """How long a model is sampled with n rows."""
    times = TIMES.get(name, 1) if n < 100 else 1
    return LONG.get((name, n), long((4, 600 * times), (3, 600 * times)))


def run_case(name, n, seed):
    """Both sides, one after the other, and what they differ by."""
    sides, how_long = MODELS[name](n, seed), lengths(name, n)
    parts = range(how_long.parts)
    ours, theirs = ([side(how_long, part) for part in parts] for side in sides)
    return compare(joined(ours), joined(theirs))


def case_id(case):
    name, n, seed = case
    return f"{name}, n = {n}, data set {seed}"
