"""
What to label next
==================

When labels cost money, ask for those of the rows that the model is least sure of. The entropy of
the class probabilities ranks the rows: 0 for a row whose class is certain, log 2 = 0.69 nats for
a row that could as well be of either class.
"""

# %%
# Rows ranked by entropy
# ----------------------
# Two rings and six labels. ``predict_entropy`` gives the entropy of every row; the highest are
# circled.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from atoll import ProbitGPClassifier
from atoll.datasets import hide_labels, make_rings
from atoll.plotting import entropy_map

X, truth = make_rings(150, random_state=0)
y = hide_labels(truth, per_class=3, marker=None, random_state=0)
model = ProbitGPClassifier(n_chains=2, random_state=0).fit(X, y)

unlabelled = np.array([label is None for label in y])
entropy = np.where(unlabelled, model.predict_entropy(X), -np.inf)
next_rows = np.argsort(-entropy)[:4]
for row in next_rows:
    print(f"row {row:3d} at {X[row].round(2)}: entropy {entropy[row]:.3f} nats")

figure, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
entropy_map(model, X, y, ax=ax, resolution=60)
ax.scatter(*X[next_rows].T, s=160, facecolors="none", edgecolors="black", linewidths=1.5)


# %%
# A loop
# ------
# Fit, ask for the labels of the four rows at the top, fit again. Beside it the same loop with
# rows picked at random. Only the order of the rows matters here, so the chains are short, and
# their warning that they are too short for more is not shown.
ROUNDS, ROWS_A_ROUND = 6, 4
warnings.simplefilter("ignore", ConvergenceWarning)


def errors_of_a_loop(by_entropy, seed):
    """Error on new rows after each round, (ROUNDS + 1,)."""
    rng = np.random.default_rng(seed)
    X, truth = make_rings(150, random_state=rng)
    X_new, truth_new = make_rings(300, random_state=rng)
    y = hide_labels(truth, per_class=2, marker=None, random_state=rng)
    errors = []
    for _ in range(ROUNDS + 1):
        model = ProbitGPClassifier(n_chains=2, n_warmup=40, n_samples=40, random_state=0).fit(X, y)
        errors.append(1 - model.score(X_new, truth_new))
        candidates = np.flatnonzero([label is None for label in y])
        if by_entropy:
            candidates = candidates[np.argsort(-model.predict_entropy(X[candidates]))]
        else:
            candidates = rng.permutation(candidates)
        asked = candidates[:ROWS_A_ROUND]
        y[asked] = truth[asked]  # here a person would be asked
    return errors


seeds = range(2)
by_entropy = np.mean([errors_of_a_loop(True, seed) for seed in seeds], axis=0)
at_random = np.mean([errors_of_a_loop(False, seed) for seed in seeds], axis=0)

# %%
# The labels near the boundary are the ones that teach. (Two repetitions are a picture, not a
# proof, and labels picked by entropy no longer say how common a class is.)
n_labels = 4 + ROWS_A_ROUND * np.arange(ROUNDS + 1)
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(n_labels, by_entropy, marker="o", label="highest entropy")
ax.plot(n_labels, at_random, marker="s", label="at random")
ax.set(xlabel="labels", ylabel="error on new rows", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
