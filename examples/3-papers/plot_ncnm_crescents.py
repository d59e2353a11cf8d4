"""
What unlabelled rows are worth
==============================

The toy problem of N. D. Lawrence and M. I. Jordan, *Semi-supervised learning via Gaussian
processes* (2005): two crescents of four hundred points in all, each labelled with probability one
tenth. The null category model learns from all rows, its supervised twin only from the labelled
ones.
"""

# %%
# We repeat the experiment for twenty draws of rows and labels. Both models are fitted by
# variational Bayes, which takes a second or two for four hundred rows.
import matplotlib.pyplot as plt
import numpy as np

from atoll import NullCategoryClassifier, ProbitGPClassifier
from atoll.datasets import make_crescents
from atoll.plotting import decision_map

N_DRAWS = 20


def one_draw(seed):
    rng = np.random.default_rng(seed)
    X, truth = make_crescents(400, random_state=rng)
    y = np.where(rng.random(400) < 0.1, truth.astype(object), None)
    twins = [
        ProbitGPClassifier(inference="vb").fit(X, y),
        NullCategoryClassifier(inference="vb").fit(X, y),
    ]
    return X, truth, y, twins


errors, losses = [], []
for seed in range(N_DRAWS):
    X, truth, y, twins = one_draw(seed)
    unlabelled = np.array([label is None for label in y])
    p = [model.label_distributions_[unlabelled] for model in twins]
    errors.append([np.mean(q.argmax(axis=1) != truth[unlabelled]) for q in p])
    losses.append([-np.mean(np.log(q[np.arange(len(q)), truth[unlabelled]])) for q in p])

# %%
# The table shows means over the draws, and the mean difference within a draw with its standard
# error.
print(f"{'on unlabelled rows':20}{'probit GP':>12}{'null category':>15}{'difference':>20}")
for name, values in {"error": np.array(errors), "log-loss": np.array(losses)}.items():
    difference = values[:, 1] - values[:, 0]
    standard_error = difference.std(ddof=1) / np.sqrt(N_DRAWS)
    print(
        f"{name:20}{values[:, 0].mean():12.4f}{values[:, 1].mean():15.4f}"
        f"{difference.mean():+12.4f} ± {standard_error:.4f}"
    )

# %%
# The picture shows the draw in which the twins differ most. Unlabelled rows are small and grey: the
# boundary on the right keeps away from them.
gain = np.array(errors)[:, 0] - np.array(errors)[:, 1]
X, truth, y, twins = one_draw(int(gain.argmax()))
figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", sharey=True)
names = ("Labelled rows alone", "All rows: null category")
for model, axis, name in zip(twins, axes, names, strict=True):
    decision_map(model, X, y, ax=axis, legend=axis is axes[1])
    axis.set_title(name)
plt.show()
