"""
Two moons from four labels: a kernel bent by the graph
======================================================

The semi-supervised Gaussian process of Sindhwani, Chu & Keerthi (2007), figure 1. Its covariance is
that of an ordinary Gaussian process conditioned on varying little along the graph of all rows; its
scales are those of largest evidence.

``atoll reproduce ssgp-fig1`` to ``ssgp-fig6`` run the paper's experiments in full.
"""

# %%
# There are two labels per class, and 116 rows without a label. Four labels are few: with other
# seeds in the next lines SSGP's error is anywhere from .004 to .22, and that of the supervised
# process from .16 to .28.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from atoll import LaplacianSVC, SSGPClassifier
from atoll.datasets import hide_labels
from atoll.plotting import decision_map

X, truth = make_moons(120, noise=0.08, random_state=4)
y = hide_labels(truth, per_class=2, marker=None, random_state=4)
X_test, truth_test = make_moons(1000, noise=0.08, random_state=2)

# %%
# With a ratio of zero the graph says nothing, and the model is the supervised process. Otherwise
# the length-scale and the ratio are those of largest evidence, or all points of the paper's grid
# are averaged, weighted by their evidence. With four labels the evidence is flat, and grid points
# at which the graph says little have a large share of the average: averaging is the more cautious
# of the two.
models = {
    "Gaussian process": SSGPClassifier(selection=None, ratio=0.0).fit(X, y),
    "SSGP, largest evidence": SSGPClassifier().fit(X, y),
    "SSGP, average over the grid": SSGPClassifier(selection="average").fit(X, y),
}
figure, axes = plt.subplots(1, 4, figsize=(17, 4.2), layout="constrained")
for (name, model), ax in zip(models.items(), axes, strict=False):
    decision_map(model, X, y, ax=ax, resolution=60, legend=False)
    p = model.predict_proba(X_test)[np.arange(1000), truth_test]
    error, loss = np.mean(model.predict(X_test) != truth_test), -np.log(p).mean()
    ax.set_title(f"{name}\nerror {error:.3f}, log-loss {loss:.2f}")
    print(f"{name}: error {error:.3f}, log-loss {loss:.3f}, log evidence {model.log_evidence_:.2f}")

# The variance of the function follows the moons: it grows along them, away from the labels.
side = np.linspace(-1.6, 2.6, 80), np.linspace(-1.1, 1.6, 80)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(*side)])
_, variance = models["SSGP, largest evidence"].predict_latent(grid)
picture = axes[3].contourf(*side, np.sqrt(variance).reshape(80, 80), 20, cmap="Greys")
axes[3].plot(*X.T, ".", color="tab:blue", markersize=3)
axes[3].set(title="Standard deviation of the function", aspect="equal")
figure.colorbar(picture, ax=axes[3])
plt.show()

# %%
# A support vector machine on the same kernel chooses its parameters by leaving out one of the four
# labels at a time: many settings tie, and it takes one of them.
machine = LaplacianSVC(selection="cv", random_state=0).fit(X, y)
tied = int((machine.cv_errors_ == machine.cv_errors_.min()).sum())
error = np.mean(machine.predict(X_test) != truth_test)
print(f"LaplacianSVC: error {error:.3f}; {tied} of {len(machine.cv_errors_)} settings tied.")
