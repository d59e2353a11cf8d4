"""Ordinal classification on five public sets against what a user would pick instead, in one run.

Half of each set's rows train and half test, in random splits (ten unless asked otherwise); features
are standardised by the training half. Measured on the test half: the mean absolute error in ranks
of the most probable class and of the median class, the log-loss (natural logarithm; a probability
below 1e-12 counts as 1e-12) and the processor seconds of one thread for fit and prediction
together.

- A rank may be missing from a training half. Our estimator is told all ranks by `classes`. Peers
  cannot be told of a rank without rows, so they are fitted to the ranks present; each missing rank
  is then given the weight of one training row. Without it each test row of that rank would cost
  them 27.6 nats.
- statsmodels: `OrderedModel`, linear, by maximum likelihood; its probit row has the noise that
  atoll's model and GPflow's have, so that what the link gives and what the function gives can be
  told apart. mord: `LogisticAT`, `alpha=1`, as it comes.
- GPflow: a `VGP` with its `Ordinal` likelihood, squared-exponential kernel starting at a
  length-scale of sqrt(n_features), 200 L-BFGS steps. "even edges" are spaced by one about zero, as
  in its own example; for "learned edges" we make the edges a parameter, which GPflow does not by
  itself, starting from the class frequencies. The noise scale is learned in both. The
  probabilities of its `predict_log_density` sum to 0.998: they are scaled to sum to one. A split
  where any of them is not finite counts as not run, and is left out of that row.
- After ± stands a standard error over splits. Splits share rows, so it is rather too small as a
  statement on new rows of the same kind.

Peers are optional: `pip install mord statsmodels`. GPflow asks for an older NumPy than atoll does,
so it runs in a Python of its own, named by `--gpflow-python` or ATOLL_GPFLOW_PYTHON, made by
`pip install gpflow "tensorflow<2.19" "tf-keras<2.19"`. (With TensorFlow 2.20 and newer, erf(inf)
is NaN and so is everything that GPflow's ordinal likelihood returns.)
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

# atoll and the peers are imported where they are used: GPflow's Python runs this file as well, and
# has only GPflow.

SETS = ("balance_scale", "era", "esl", "lev", "swd")
METRICS = ("error of the mode", "error of the median", "log-loss", "seconds")
OURS = "atoll, EP"
FLOOR = 1e-12
GPFLOW_STEPS = 200
GPFLOW_EDGES = ("learned", "even")


# --- the problems ---------------------------------------------------------------------------------


def load(folder, name):
    table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1].astype(int)


def split(X, y, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    scale[scale == 0] = 1.0
    return (X[train] - mean) / scale, y[train], (X[test] - mean) / scale, y[test]


# --- the models: (X, ranks, X_test, n_ranks, seed) -> probabilities (n_test, n_ranks) -------------


def atoll_gp(kernel, inference):
    def probabilities(X, ranks, X_test, n_ranks, seed):
        from atoll import OrdinalGPClassifier

        model = OrdinalGPClassifier(
            classes=range(n_ranks), kernel=kernel, inference=inference, random_state=seed
        )
        return model.fit(X, ranks).predict_proba(X_test)

    return probabilities


def frequencies(X, ranks, X_test, n_ranks, seed):
    return np.tile(np.bincount(ranks, minlength=n_ranks) / len(ranks), (len(X_test), 1))


def statsmodels_ordered(link):
    def probabilities(X, ranks, X_test, n_ranks, seed):
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        fit = OrderedModel(ranks, X, distr=link).fit(method="bfgs", maxiter=1000, disp=False)
        return np.asarray(fit.predict(X_test))

    return probabilities


def mord_logistic(X, ranks, X_test, n_ranks, seed):
    from mord import LogisticAT

    return LogisticAT(alpha=1.0).fit(X, ranks).predict_proba(X_test)


def gpflow_vgp(edges):
    def probabilities(X, ranks, X_test, n_ranks, seed):
        import gpflow
        from scipy.stats import norm
        from tensorflow_probability import bijectors

        if edges == "even":
            likelihood = gpflow.likelihoods.Ordinal(np.arange(n_ranks - 1) - (n_ranks - 2) / 2)
        else:
            shares = np.cumsum(np.bincount(ranks, minlength=n_ranks) + 0.5)
            start = np.sqrt(2) * norm.ppf(shares[:-1] / shares[-1])
            likelihood = gpflow.likelihoods.Ordinal(start)
            likelihood.bin_edges = gpflow.Parameter(start, transform=bijectors.Ascending())
        kernel = gpflow.kernels.SquaredExponential(lengthscales=np.sqrt(X.shape[1]))
        model = gpflow.models.VGP((X, ranks[:, None].astype(float)), kernel, likelihood)
        gpflow.optimizers.Scipy().minimize(
            model.training_loss, model.trainable_variables, options={"maxiter": GPFLOW_STEPS}
        )
        columns = [
            np.exp(model.predict_log_density((X_test, np.full((len(X_test), 1), float(rank)))))
            for rank in range(n_ranks)
        ]
        p = np.column_stack(columns)
        return p / p.sum(axis=1, keepdims=True)

    return probabilities


def with_missing_ranks(model):
    """A peer fitted to the ranks that have rows; the others get the weight of one row each.

    NaN where it cannot be fitted.
    """

    def probabilities(X, y, X_test, n_ranks, seed):
        present, ranks = np.unique(y, return_inverse=True)
        weight = 1 / (len(y) + n_ranks - len(present))
        p = np.full((len(X_test), n_ranks), weight)
        try:
            p[:, present] = model(X, ranks, X_test, len(present), seed) * len(y) * weight
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            p[:] = np.nan
        return p

    return probabilities


def timed(model, X, y, X_test, n_ranks, seed):
    """Probabilities and processor seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, theirs and ours
        p = model(X, y, X_test, n_ranks, seed)
    return p, time.process_time() - began


PEERS = {  # by package
    "statsmodels": {
        "statsmodels, ordered logit": statsmodels_ordered("logit"),
        "statsmodels, ordered probit": statsmodels_ordered("probit"),
    },
    "mord": {"mord, LogisticAT": mord_logistic},
}


# --- GPflow, in a Python of its own ---------------------------------------------------------------


def has_gpflow(python):
    question = "import importlib.util as u, sys; sys.exit(u.find_spec('gpflow') is None)"
    return subprocess.run([python, "-c", question], check=False).returncode == 0


def run_gpflow(python, problems, answered):
    """Have all the problems fitted in one process, which writes its answers to `answered`."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = {}
        for (name, seed), (X, y, X_test, _, n_ranks) in problems.items():
            for part, value in {"X": X, "y": y, "X_test": X_test, "n_ranks": n_ranks}.items():
                arrays[f"{name}/{seed}/{part}"] = value
        asked = Path(folder, "problems.npz")
        np.savez(asked, **arrays)
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        command = [python, __file__, "--gpflow-worker", asked, answered]
        subprocess.run(command, check=True, env=environment)


def gpflow_worker(asked, answered):
    import gpflow
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    arrays = np.load(asked)
    answers = {"version": f"GPflow {gpflow.__version__} with TensorFlow {tf.__version__}"}
    keys = list(dict.fromkeys(key.rpartition("/")[0] for key in arrays.files))
    for key in [keys[0], *keys]:  # the first fit is not timed
        X, y, X_test, n_ranks = (
            arrays[f"{key}/{part}"] for part in ("X", "y", "X_test", "n_ranks")
        )
        for edges in GPFLOW_EDGES:
            model = with_missing_ranks(gpflow_vgp(edges))
            try:
                p, seconds = timed(model, X, y, X_test, int(n_ranks), seed=0)
            except tf.errors.InvalidArgumentError:  # a matrix that Cholesky does not take
                p, seconds = np.full((len(X_test), n_ranks), np.nan), np.nan
            answers[f"{edges}/{key}/p"], answers[f"{edges}/{key}/seconds"] = p, seconds
            print(f"  GPflow, {edges} edges, {key}: {seconds:.0f} s", file=sys.stderr, flush=True)
    np.savez(answered, **answers)


def gpflow_fits(answered, problems):
    """{model: {problem: (probabilities, seconds)}} and the version that made them."""
    answers = np.load(answered)
    fits = {
        f"GPflow, {edges} edges": {
            (name, seed): (
                answers[f"{edges}/{name}/{seed}/p"],
                float(answers[f"{edges}/{name}/{seed}/seconds"]),
            )
            for name, seed in problems
        }
        for edges in GPFLOW_EDGES
    }
    return fits, str(answers["version"])


# --- the tables -----------------------------------------------------------------------------------


def measure(p, y_test, seconds):
    """The METRICS of one fit; NaN throughout where a probability is not finite."""
    if not np.all(np.isfinite(p)):
        return np.full(len(METRICS), np.nan)
    mode = p.argmax(axis=1)
    median = np.minimum((np.cumsum(p, axis=1) < 0.5).sum(axis=1), p.shape[1] - 1)
    likelihood = np.maximum(p[np.arange(len(y_test)), y_test], FLOOR)
    return np.array(
        [
            np.abs(mode - y_test).mean(),
            np.abs(median - y_test).mean(),
            -np.log(likelihood).mean(),
            seconds,
        ]
    )


def mean_and_error(values):
    """Mean and standard error over the splits that ran, and how many did."""
    ran = values[np.isfinite(values)]
    if len(ran) < 2:
        return (ran.mean() if len(ran) else np.nan), np.nan, len(ran)
    return ran.mean(), ran.std(ddof=1) / np.sqrt(len(ran)), len(ran)


def table_row(label, values, signed=False):
    """`values` (sets, splits): a cell for each set, then the mean over sets."""
    summaries = [mean_and_error(of_set) for of_set in values]
    means, errors, counts = (np.array(column) for column in zip(*summaries))
    overall = means.mean(), np.sqrt(np.sum(errors**2)) / len(errors), values.shape[1]
    sign = "+" if signed else ""
    cells = []
    for mean, error, count in [*zip(means, errors, counts), overall]:
        cell = f"{mean:{sign}.3f} ± {error:.3f}" if np.isfinite(mean) else "does not run"
        if 0 < count < values.shape[1]:
            cell += f" ({count} of {values.shape[1]})"
        cells.append(cell)
    return f"| {label} | " + " | ".join(cells) + " |"


def tables(results, sets):
    """Markdown; `results` has for each model an array (metrics, sets, splits)."""
    header = ["| | " + " | ".join([*sets, "mean"]) + " |", "|---" * (len(sets) + 2) + "|"]
    lines = []
    for j, metric in enumerate(METRICS):
        lines += [f"\n**{metric[0].upper()}{metric[1:]}**\n", *header]
        lines += [table_row(model, values[j]) for model, values in results.items()]
    for j, metric in enumerate(METRICS[:3]):
        lines += [f"\n**{OURS} less each of the others, {metric}** (below 0: ours is better)\n"]
        lines += header
        lines += [
            table_row(model, results[OURS][j] - values[j], signed=True)
            for model, values in results.items()
            if model != OURS
        ]
    return "\n".join(lines)


# --- the run --------------------------------------------------------------------------------------


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", type=int, default=10, help="random halves of each set")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--write", metavar="PATH", help="write the tables to this file as well")
    parser.add_argument(
        "--gpflow-python",
        default=os.environ.get("ATOLL_GPFLOW_PYTHON", sys.executable),
        metavar="PYTHON",
        help="a Python that has GPflow (default: ATOLL_GPFLOW_PYTHON, else this one)",
    )
    parser.add_argument(
        "--gpflow-answers",
        metavar="PATH",
        help="an .npz file that keeps what GPflow answered; it is not run again where this exists",
    )
    return parser.parse_args()


def fit_all(problems, options):
    """The fits of every model at hand, the versions used, and the peers that are missing."""
    fits, versions, missing = {}, [f"atoll {version('atoll')}"], []
    models = {
        OURS: atoll_gp("isotropic", "ep"),
        "atoll, VB": atoll_gp("isotropic", "vb"),
        "atoll, EP, ARD": atoll_gp("ard", "ep"),
    }
    models["class frequencies"] = with_missing_ranks(frequencies)
    for package, peers in PEERS.items():
        if importlib.util.find_spec(package):
            models |= {label: with_missing_ranks(model) for label, model in peers.items()}
            versions.append(f"{package} {version(package)}")
        else:
            missing.append(package)
    for label, model in models.items():
        X, y, X_test, _, n_ranks = next(iter(problems.values()))
        timed(model, X, y, X_test, n_ranks, seed=0)  # the first fit is not timed
        fits[label] = {
            key: timed(model, X, y, X_test, n_ranks, seed=key[1])
            for key, (X, y, X_test, _, n_ranks) in problems.items()
        }
    with tempfile.TemporaryDirectory() as folder:
        answered = Path(options.gpflow_answers or Path(folder, "answers.npz"))
        if not answered.exists() and has_gpflow(options.gpflow_python):
            run_gpflow(options.gpflow_python, problems, answered)
        if answered.exists():
            of_gpflow, its_version = gpflow_fits(answered, problems)
            fits.update(of_gpflow)
            versions.append(its_version)
        else:
            missing.append("GPflow")
    return fits, versions, missing


def main():
    options = arguments()
    folder = Path(os.environ.get("ATOLL_DATA", ""), "ordinal_skordinal")
    if not os.environ.get("ATOLL_DATA") or not folder.is_dir():
        print("Skipped: set ATOLL_DATA to a folder that holds ordinal_skordinal.")
        return

    from atoll.core.files import atomic_path, check_writable

    if options.write:
        check_writable(options.write)
    problems = {}
    for name in options.sets:
        X, y = load(folder, name)
        for seed in range(options.splits):
            problems[name, seed] = (*split(X, y, seed), int(y.max()) + 1)

    fits, versions, missing = fit_all(problems, options)
    results = {}
    for label, answers in fits.items():
        values = [measure(answers[key][0], problems[key][3], answers[key][1]) for key in problems]
        shape = (len(METRICS), len(options.sets), options.splits)
        results[label] = np.array(values).T.reshape(shape)

    title, *about, installing = __doc__.strip().split("\n\n")
    about = "\n\n".join(about)
    text = f"{about}\n\nVersions: {', '.join(versions)}.\n{tables(results, options.sets)}\n"
    print(text)
    if missing:
        print(f"Missing peers: {', '.join(missing)}. {' '.join(installing.split())}")
    if options.write:
        with atomic_path(options.write) as temporary:
            temporary.write_text(f"# {title}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--gpflow-worker"]:
        gpflow_worker(*sys.argv[2:])
    else:
        main()
