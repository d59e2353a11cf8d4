"""
Classes that follow their neighbours
====================================

``GraphGPClassifier`` needs no settings. It joins every row to its nearest neighbours and learns one
function per class that varies slowly along that graph; what the labels leave open is expressed as
probabilities.
"""

# %%
# One label per class
# -------------------
# A pinwheel with five arms and 300 rows, and five labels or more. The map's colour shows the most
# probable class, and its depth how sure the model is: it is pale where arms meet, and where the
# labels leave room for doubt.
import matplotlib.pyplot as plt

from atoll import GraphGPClassifier
from atoll.datasets import hide_labels, make_pinwheel
from atoll.plotting import decision_map

X, truth = make_pinwheel(300, n_classes=5, tangential_spread=0.2, random_state=3)
X_new, truth_new = make_pinwheel(2000, n_classes=5, tangential_spread=0.2, random_state=4)
figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
for per_class, ax in zip((1, 2, 8), axes, strict=True):
    y = hide_labels(truth, per_class=per_class, marker=None, random_state=0)
    model = GraphGPClassifier(random_state=0).fit(X, y)
    decision_map(model, X, y, ax=ax, resolution=80, legend=False)
    error = 1 - model.score(X_new, truth_new)
    ax.set_title(f"{per_class} label{'s' * (per_class > 1)} a class: error {error:.3f}")
plt.show()
print(model.diagnostics_["verdict"])

# %%
# Is it as sure as it should be?
# ------------------------------
# Of the rows that are given a class with probability 0.8, four in five should belong to it. The
# diagram shows new rows, for five draws of two labels per class.
import numpy as np

from atoll.diagnostics import expected_calibration_error
from atoll.plotting import reliability_diagram

p = np.concatenate(
    [
        GraphGPClassifier(random_state=seed)
        .fit(X, hide_labels(truth, per_class=2, marker=None, random_state=seed))
        .predict_proba(X_new)
        for seed in range(5)
    ]
)
right = np.tile(truth_new, 5)
figure, ax = plt.subplots(figsize=(4.6, 4.6), layout="constrained")
reliability_diagram(p, right, ax=ax)
ax.set_title(f"calibration error {expected_calibration_error(p, right):.3f}")
plt.show()

# %%
# More rows than a graph should hold
# ----------------------------------
# Now there are a hundred thousand rows and fifty labels. The graph joins all labelled rows and a
# random part of the others; the remaining rows follow their neighbours on the graph.
X, truth = make_pinwheel(100_000, n_classes=5, tangential_spread=0.2, random_state=5)
y = hide_labels(truth, per_class=10, marker=None, random_state=0)
model = GraphGPClassifier(max_graph_rows=3000, random_state=0).fit(X, y)
print(f"{np.mean(model.transduction_ != truth):.4f} of the rows given another class than their own")
print(model.diagnostics_["verdict"])
