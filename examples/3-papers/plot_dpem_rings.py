"""
Two rings: a mixture in every class
===================================

A small version of examples 1 and 3 of T. Kimura, Y. Nakada, A. Doucet and T. Matsumoto,
*Semi-supervised learning scheme using Dirichlet process EM-algorithm* (2009): each class is a ring,
each ring is a Dirichlet process mixture of Gaussians, and unlabelled rows help to find it.

``atoll reproduce dpem-rings``, ``dpem-spirals`` and ``dpem-unlabelled`` run the paper's three
examples in full.
"""

# %%
# There are eight labels per ring, and 484 rows without a label.
import matplotlib.pyplot as plt
import numpy as np

from atoll import DPMixtureClassifier
from atoll.datasets import hide_labels, make_rings
from atoll.plotting import decision_map

X, truth = make_rings(500, random_state=1)
y = hide_labels(truth, per_class=8, marker=None, random_state=1)
labelled = np.array([label is not None for label in y])
X_test, truth_test = make_rings(2000, random_state=2)

# %%
# One model is fitted to the labelled rows only, the other to all rows. ``n_components`` is the
# largest number of components that a class may use; components that are not needed end up without
# rows.
models = {
    "16 labelled rows": DPMixtureClassifier(random_state=0).fit(X[labelled], y[labelled]),
    "and 484 unlabelled ones": DPMixtureClassifier(random_state=0).fit(X, y),
}
figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
for (name, model), ax in zip(models.items(), axes, strict=False):
    rows = labelled if name.startswith("16") else slice(None)
    decision_map(model, X[rows], y[rows], ax=ax, resolution=70, legend=False)
    error = np.mean(model.predict(X_test) != truth_test)
    loss = -model.score_samples(X_test).mean()
    ax.set_title(f"{name}\nerror {error:.3f}, predictive loss {loss:.2f}")
    used = model.n_components_.tolist()
    print(f"{name}: error {error:.3f}, loss {loss:.3f}, components used {used}")

# The model is also a density: it draws rows, and it says how novel a place is. Places between the
# rings and beyond them have a lower density than almost every row that the model draws.
side = np.linspace(-6, 6, 120)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
novelty = models["and 484 unlabelled ones"].novelty(grid).reshape(120, 120)
picture = axes[2].contourf(side, side, novelty, np.linspace(0, 1, 21), cmap="Greys")
drawn, classes = models["and 484 unlabelled ones"].sample(300, random_state=0)
for c, colour in zip((0, 1), ("tab:blue", "tab:orange")):
    axes[2].scatter(*drawn[classes == c].T, s=8, c=colour, label=f"drawn, class {c}")
axes[2].set(title="Novelty, and 300 draws of the model", aspect="equal", xlabel="$y_1$")
axes[2].set(xlim=(-6, 6), ylim=(-6, 6))
axes[2].legend(fontsize="small", loc="upper right")
figure.colorbar(picture, ax=axes[2], label="novelty")
plt.show()
