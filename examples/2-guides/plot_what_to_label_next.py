"""
What to label next
==================

When labels cost money, ask for the label of the row about which the model is least sure. The
entropy of the class probabilities ranks the rows: it is 0 for a row whose class is certain, and log
2 = 0.69 nats for a row that could equally well be of either class.
"""

# %%
# Rows ranked by entropy
# ----------------------
# The data are two wide crescents with six labels. ``predict_entropy`` gives the entropy of every
# row; the rows with the highest entropy are circled.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from atoll import ProbitGPClassifier
from atoll.datasets import hide_labels, make_crescents
from atoll.plotting import entropy_map

X, truth = make_crescents(150, noise=1.5, random_state=0)
y = hide_labels(truth, per_class=3, marker=None, random_state=0)
model = ProbitGPClassifier(n_chains=2, random_state=0).fit(X, y)

unlabelled = np.array([label is None for label in y])
entropy = np.where(unlabelled, model.predict_entropy(X), -np.inf)
next_rows = np.argsort(-entropy)[:4]
for row in next_rows:
    print(f"row {row:3d} at {X[row].round(2)}: entropy {entropy[row]:.3f} nats")

figure, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
entropy_map(model, X, y, ax=ax, resolution=40)
ax.scatter(*X[next_rows].T, s=160, facecolors="none", edgecolors="black", linewidths=1.5)


# %%
# A loop
# ------
# The loop fits, asks for the label of the row at the top, and fits again. It takes one row at a
# time, because the rows at the top are often neighbours, and the second of them then teaches
# little. For comparison, the same loop picks rows at random. Only the order of the rows matters
# here, so the chains are short; their warning that they are too short for other uses is suppressed.
ROUNDS = 6
warnings.simplefilter("ignore", ConvergenceWarning)


def errors_of_a_loop(by_entropy, seed):
    """Return the error on new rows after each round, (ROUNDS + 1,)."""
    rng = np.random.default_rng(seed)
    X, truth = make_crescents(150, noise=1.5, random_state=rng)
    X_new, truth_new = make_crescents(300, noise=1.5, random_state=rng)
    y = hide_labels(truth, per_class=2, marker=None, random_state=rng)
    errors = []
    for _ in range(ROUNDS + 1):
        model = ProbitGPClassifier(n_chains=2, n_warmup=20, n_samples=20, random_state=0).fit(X, y)
        errors.append(1 - model.score(X_new, truth_new))
        candidates = np.flatnonzero([label is None for label in y])
        if by_entropy:
            asked = candidates[np.argmax(model.predict_entropy(X[candidates]))]
        else:
            asked = rng.choice(candidates)
        y[asked] = truth[asked]  # here a person would be asked
    return errors


seeds = range(3)
by_entropy = np.mean([errors_of_a_loop(True, seed) for seed in seeds], axis=0)
at_random = np.mean([errors_of_a_loop(False, seed) for seed in seeds], axis=0)

# %%
# Here the labels near the boundary are the ones that teach. Three repetitions are an illustration
# and not a proof, and it is not so everywhere: on two rings, with four labels per round, rows of
# high entropy started out behind random ones. Where a model knows next to nothing, all entropies
# are nearly alike, and the rows at the top are close together. Labels picked by entropy no longer
# say how common a class is, nor do they make a fair test set: for that, keep some that were picked
# at random.
n_labels = 4 + np.arange(ROUNDS + 1)
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(n_labels, by_entropy, marker="o", label="highest entropy")
ax.plot(n_labels, at_random, marker="s", label="at random")
ax.set(xlabel="labels", ylabel="error on new rows", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
