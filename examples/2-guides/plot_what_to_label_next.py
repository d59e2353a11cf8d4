"""
What to label next, and when to stop
====================================

Labels cost time, and rows do not teach the same. ``ActiveLearner`` holds a pool of rows, says which
to label next, estimates how wrong its predictions still are, and says when labelling may stop.
"""

# %%
# A loop of labels
# ----------------
# It starts from no label at all: the first row is a typical one. Then the model looks ahead. For
# every row it asks what its label, whichever it turns out to be, would do to the predictions of all
# other rows, and picks the row that lowers the expected Brier score most. Every fifth row is drawn
# at random instead: an audit, which is predicted before its label is learnt.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_moons

from atoll import GraphGPClassifier
from atoll.active import ActiveLearner

X, truth = make_moons(300, noise=0.25, random_state=0)
learner = ActiveLearner(classes=[0, 1], target_error=0.1, random_state=0).fit(X)
true_errors, estimates, limits = [], [], []
while not (advice := learner.should_stop()).stop and learner.n_labels_ < 60:
    rows = learner.query().rows
    learner.update(rows, truth[rows])  # here a person would be asked
    said = learner.estimate_error()
    unlabelled = np.array([label is None for label in learner.labels_])
    true_errors.append(np.mean(learner.predictions_[unlabelled] != truth[unlabelled]))
    estimates.append(said.error)
    limits.append(said.upper)
print(said)
print(advice.reason)

# %%
# The rows that were asked: they cover the two moons and lie close together where these meet, and
# the audits lie anywhere.
audited = [audit.row for audit in learner.audits_]
asked = np.flatnonzero(~unlabelled)
figure, ax = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
ax.scatter(*X.T, c=learner.proba_[:, 1], cmap="coolwarm", s=14, vmin=0, vmax=1)
ax.scatter(*X[asked].T, s=90, facecolors="none", edgecolors="black", label="labelled")
ax.scatter(*X[audited].T, s=190, marker="s", facecolors="none", edgecolors="grey", label="audit")
ax.legend(frameon=False)
ax.set(xticks=[], yticks=[])

# %%
# How wrong the model is
# ----------------------
# A model's own doubts are no safe guide, and labels that were picked are no fair test. The audits
# are: they correct the model's doubts, and give a limit that the share of wrong rows does not
# exceed, with a probability of 95 %.
figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
n = np.arange(1, len(limits) + 1)
ax.plot(n, 100 * np.array(limits), color="#1f5fa8", label="upper limit, 95 %")
ax.plot(n, 100 * np.array(estimates), color="#1f5fa8", linestyle=":", label="estimate")
ax.plot(n, 100 * np.array(true_errors), color="black", label="truth")
ax.axhline(10, color="grey", linewidth=0.8)
ax.set(xlabel="labels", ylabel="wrong unlabelled rows, %", ylim=(0, None))
ax.legend(frameon=False)

# %%
# Against random rows, and in batches
# -----------------------------------
# Four of ten handwritten digits, in pools of 200 rows. A batch is chosen as one: after each row,
# what its label is expected to tell is taken off. The best rows of a rule that scores one row at a
# time are often neighbours, of which the second teaches little. Three pools are an illustration;
# the guide in the documentation has a table over twelve tasks.


images, digit = load_digits(return_X_y=True)
classes = [3, 5, 8, 9]


def errors_of_a_loop(strategy, batch, seed):
    """Return the share of wrong rows after each batch."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.flatnonzero(np.isin(digit, classes)), 200, replace=False)
    X, truth = images[rows], digit[rows]
    model = GraphGPClassifier(n_draws=128)
    learner = ActiveLearner(model, classes=classes, strategy=strategy, random_state=seed).fit(X)
    errors = []
    while learner.n_labels_ < 20:
        rows = learner.query(batch).rows
        learner.update(rows, truth[rows])
        errors.append(np.mean(learner.predictions_ != truth))
    return errors


figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for strategy, batch, label in (
    ("random", 1, "random rows"),
    ("brier", 1, "Brier gain, one at a time"),
    ("brier", 5, "Brier gain, batches of 5"),
):
    mean = np.mean([errors_of_a_loop(strategy, batch, seed) for seed in range(3)], axis=0)
    ax.plot(batch * np.arange(1, len(mean) + 1), 100 * mean, marker=".", label=label)
ax.set(xlabel="labels", ylabel="wrong rows, %", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
