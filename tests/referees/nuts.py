"""The models' posteriors once more, in NumPyro, by NUTS: nothing here comes from the package.

Functions are whitened, f = L(θ) ν, and auxiliary variables are integrated out, by hand or, for the
multinomial probit, by one more normal number for each row.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import log_ndtr, logsumexp
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)

NUGGET = 1e-6
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
LOG_WEIGHTS = np.log(WEIGHTS / WEIGHTS.sum())


class Found(NamedTuple):
    """Draws of NUTS, (chain, draw, …) each.

    parameters : name -> (chain, draw)
    classes : (chain, draw, m, K) P(class and not null) of the new rows, averaged over f there
    """

    parameters: dict[str, np.ndarray]
    classes: np.ndarray


def rbf(X, Y, theta):
    squares = ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)
    return jnp.exp(theta[0] - 0.5 * squares * jnp.exp(-2.0 * theta[1]))


def factor(X, theta):
    return jnp.linalg.cholesky(rbf(X, X, theta) + NUGGET * jnp.exp(theta[0]) * jnp.eye(len(X)))


def sample_theta(mean, sd):
    return numpyro.sample("theta", dist.Normal(jnp.asarray(mean), jnp.asarray(sd)).to_event(1))


def sample_functions(X, theta, n_functions):
    white = dist.Normal(jnp.zeros((len(X), n_functions)), 1.0).to_event(2)
    return factor(X, theta) @ numpyro.sample("nu", white)


def run(model, *, seed, n_warmup, n_samples, n_chains, target=0.85):
    kernel = NUTS(model, target_accept_prob=target)
    chains = MCMC(
        kernel, num_warmup=n_warmup, num_samples=n_samples, num_chains=n_chains,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    chains.run(jax.random.PRNGKey(seed))
    return chains.get_samples(group_by_chain=True)


def at_new_rows(samples, X, new_rows, of_moments):
    """P(class) at the new rows for each draw: f there is normal given f at the rows.

    of_moments : mean (m, F), variance (m,), parameters of the draw -> (m, K)
    """

    def one(draw):
        theta, nu = draw["theta"], draw["nu"]
        lower = factor(X, theta)
        reach = solve_triangular(lower, rbf(X, new_rows, theta), lower=True)
        variance = jnp.exp(theta[0]) - (reach**2).sum(axis=0)
        return of_moments(reach.T @ nu, jnp.maximum(variance, 0.0), draw)

    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in samples.items()}
    found = jax.lax.map(jax.jit(one), flat)
    n_chains, n_samples = samples["theta"].shape[:2]
    return np.asarray(found).reshape(n_chains, n_samples, *found.shape[1:])


def log_interval(low, high):
    """log(Φ(high) − Φ(low)), in the tail where it keeps its digits."""
    flip = low > 0
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    top, bottom = log_ndtr(high), log_ndtr(low)
    return top + jnp.log1p(-jnp.exp(jnp.minimum(bottom - top, -1e-15)))


def parameters_of(samples, extra=()):
    theta = np.asarray(samples["theta"])
    found = {"log variance": theta[..., 0], "log length-scale": theta[..., 1]}
    for name in extra:
        for j in range(samples[name].shape[-1]):
            found[f"{name} {j}"] = np.asarray(samples[name][..., j])
    return found


# The models ---------------------------------------------------------------------------------------


def probit(X, codes, new_rows, prior, **lengths):
    side = jnp.where(codes == 1, 1.0, -1.0)

    def model():
        f = sample_functions(X, sample_theta(*prior), 1)[:, 0]
        numpyro.factor("labels", log_ndtr(side * f).sum())

    def of_moments(mean, variance, draw):
        p = jnp.exp(log_ndtr(mean[:, 0] / jnp.sqrt(1.0 + variance)))
        return jnp.stack([1.0 - p, p], axis=1)

    samples = run(model, **lengths)
    return Found(parameters_of(samples), at_new_rows(samples, X, new_rows, of_moments))


def multinomial_probit(X, codes, new_rows, prior, n_classes, **lengths):
    """P(y | f) = E_u Π Φ(u + f_y − f_i), with u of each row drawn beside the functions."""
    own = jnp.eye(n_classes)[codes]

    def model():
        f = sample_functions(X, sample_theta(*prior), n_classes)
        u = numpyro.sample("u", dist.Normal(jnp.zeros(len(X)), 1.0).to_event(1))
        ahead = u + (own * f).sum(axis=1)
        others = log_ndtr(ahead[:, None] - f) * (1.0 - own)
        numpyro.factor("labels", others.sum())

    def of_moments(mean, variance, draw):
        scaled = mean / jnp.sqrt(1.0 + variance)[:, None]
        ahead = NODES[:, None, None, None] + (scaled[:, :, None] - scaled[:, None, :])
        others = log_ndtr(ahead) * (1.0 - jnp.eye(n_classes))
        return jnp.exp(logsumexp(LOG_WEIGHTS[:, None, None] + others.sum(axis=3), axis=0))

    samples = run(model, **lengths)
    return Found(parameters_of(samples), at_new_rows(samples, X, new_rows, of_moments))


def ordinal(X, codes, new_rows, prior, cut_prior, **lengths):
    """Cut points b_1 and log gaps are normal."""
    n_classes = len(cut_prior[0]) + 1

    def ends(cuts):
        b = jnp.cumsum(jnp.concatenate([cuts[:1], jnp.exp(cuts[1:])]))
        return jnp.append(-jnp.inf, b), jnp.append(b, jnp.inf)

    def log_p(f, sd, cuts):
        low, high = ends(cuts)
        # Infinite ends are replaced by far ones, whose gradients are finite.
        low, high = jnp.maximum(low, -1e3), jnp.minimum(high, 1e3)
        return log_interval((low - f[:, None]) / sd, (high - f[:, None]) / sd)

    def model():
        f = sample_functions(X, sample_theta(*prior), 1)[:, 0]
        cuts = numpyro.sample("cuts", dist.Normal(*map(jnp.asarray, cut_prior)).to_event(1))
        numpyro.factor("labels", log_p(f, 1.0, cuts)[jnp.arange(len(X)), codes].sum())

    def of_moments(mean, variance, draw):
        return jnp.exp(log_p(mean[:, 0], jnp.sqrt(1.0 + variance)[:, None], draw["cuts"]))

    samples = run(model, **lengths)
    assert samples["cuts"].shape[-1] == n_classes - 1
    return Found(parameters_of(samples, ["cuts"]), at_new_rows(samples, X, new_rows, of_moments))


def softmax(X, codes, new_rows, prior, n_classes, **lengths):
    def model():
        g = sample_functions(X, sample_theta(*prior), n_classes)
        log_p = g - logsumexp(g, axis=1, keepdims=True)
        numpyro.factor("labels", log_p[jnp.arange(len(X)), codes].sum())

    shifts = np.random.default_rng(0).standard_normal((200, 1, n_classes))
    shifts = np.concatenate([shifts, -shifts])

    def of_moments(mean, variance, draw):
        g = mean + jnp.sqrt(variance)[:, None] * shifts
        return jax.nn.softmax(g, axis=-1).mean(axis=0)

    samples = run(model, **lengths)
    return Found(parameters_of(samples), at_new_rows(samples, X, new_rows, of_moments))


def null_category(X, codes, seen, new_rows, prior, width, rates, **lengths):
    """Two classes: z > w/2 or z < −w/2; without a label, either, by the rates of missing."""
    a, log_rates = width / 2, np.log(rates)

    def log_p(f, sd):
        return jnp.stack([log_ndtr((-f - a) / sd), log_ndtr((f - a) / sd)], axis=-1)

    def model():
        f = sample_functions(X, sample_theta(*prior), 1)[:, 0]
        by_class = log_p(f, 1.0)
        own = by_class[jnp.arange(len(X)), codes]
        either = logsumexp(by_class + log_rates, axis=1)
        numpyro.factor("rows", jnp.where(seen, own, either).sum())

    def of_moments(mean, variance, draw):
        return jnp.exp(log_p(mean[:, 0], jnp.sqrt(1.0 + variance)))

    samples = run(model, **lengths)
    return Found(parameters_of(samples), at_new_rows(samples, X, new_rows, of_moments))


def islands(X, codes, rejections, new_rows, prior, n_classes, **lengths):
    """Archipelago given its rejections: labels −1 where missing, exp g_l/(1 + Λ), Λ/(1 + Λ)."""
    rows = jnp.concatenate([X, rejections])
    n, labelled = len(X), codes >= 0

    def model():
        g = sample_functions(rows, sample_theta(*prior), n_classes)
        log_any = logsumexp(g, axis=1)
        top = jnp.where(labelled, g[jnp.arange(n), jnp.maximum(codes, 0)], log_any[:n])
        numpyro.factor("rows", top.sum() - jnp.logaddexp(0.0, log_any).sum())

    shifts = np.random.default_rng(0).standard_normal((200, 1, n_classes))
    shifts = np.concatenate([shifts, -shifts])

    def of_moments(mean, variance, draw):
        g = mean + jnp.sqrt(variance)[:, None] * shifts
        return jax.nn.softmax(g, axis=-1).mean(axis=0)

    samples = run(model, **lengths)
    return Found(parameters_of(samples), at_new_rows(samples, rows, new_rows, of_moments))


def sparse_islands(problem, prior, **lengths):
    """Archipelago through inducing values, π being some points of it.

    problem : labelled (l, d), labels (l, K) one-hot, rows (u, d), base (J, d), inducing (m, d),
        the kernel's detail, noise (S, l + u + J, K)
    """
    labelled, labels, rows, base, inducing, detail, noise = map(jnp.asarray, problem)
    l, u, K = len(labelled), len(rows), labels.shape[1]  # noqa: E741
    places = jnp.concatenate([labelled, rows, base])

    def correlation(first, second, theta):
        e = rbf(first, second, jnp.stack([jnp.zeros(()), theta[1]]))
        return (1.0 - detail) * e + detail * e**4

    def functions(v, theta):
        C = correlation(inducing, inducing, theta) + 1e-4 * jnp.eye(len(inducing))
        across = correlation(inducing, places, theta)
        A = solve_triangular(jnp.linalg.cholesky(C), across, lower=True)
        left = jnp.sqrt(jnp.maximum(1.0 - (A**2).sum(axis=0), 0.0) + 1e-12)
        return jnp.exp(0.5 * theta[0]) * (A.T @ v.T + left[:, None] * noise)

    def log_mean(x):
        return logsumexp(x, axis=0) - jnp.log(len(x))

    def model():
        theta = sample_theta(*prior)
        v = numpyro.sample("v", dist.Normal(jnp.zeros((K, len(inducing))), 1.0).to_event(2))
        g = functions(v, theta)
        log_any = logsumexp(g, axis=-1)
        log_kept = log_any - jnp.logaddexp(0.0, log_any)
        own = (labels * g[:, :l]).sum(axis=-1) - jnp.logaddexp(0.0, log_any[:, :l])
        log_norm = log_mean(log_mean(log_kept[:, l + u :]))
        total = log_mean(own).sum() + log_mean(log_kept[:, l : l + u]).sum()
        numpyro.factor("rows", total - (l + u) * log_norm)
        numpyro.deterministic("log_norm", log_norm[None])
        numpyro.deterministic("p", jax.nn.softmax(g[:, : l + u], axis=-1).mean(axis=0))

    samples = run(model, **lengths)
    return Found(parameters_of(samples, ["log_norm"]), np.asarray(samples["p"]))
