r"""
Three classes by a probit Gaussian process
==========================================

A small version of figure 16 of S. Rogers, *GPs for classification and ordinal regression via the
auxiliary variable trick* (2014). There is one function per class, a row's class is the one with the
largest :math:`z_k = f_k + \varepsilon_k`, and the covariance is
:math:`\exp(-\lVert x - x' \rVert^2)`.

``atoll reproduce rogers-fig16`` runs it in full: more rows, more data sets, standard errors, and a
page that compares the lecture with what was measured.
"""

# %%
# The lecture's data are not available; three classes in four clouds, two of which belong to the
# first class, take their place. Their true class probabilities are known.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from atoll import ProbitGPClassifier
from atoll.reproductions.rogers import fixed_kernel
from atoll.reproductions.rogers_multiclass import four_clouds, true_probabilities

rng_train, rng_test = np.random.default_rng(0).spawn(2)
X, y = four_clouds(45, rng_train)
X_new, y_new = four_clouds(500, rng_test)

# %%
# ``fixed_kernel(1.0)`` is scikit-learn's ``RBF`` with its length-scale held at :math:`1/\sqrt{2}`.
model = ProbitGPClassifier(
    kernel=fixed_kernel(1.0), inference="mcmc", n_chains=2, n_warmup=50, n_samples=200,
    random_state=0,
).fit(X, y)  # fmt: skip
losses = {
    "model": log_loss(y_new, model.predict_proba(X_new)),
    "true probabilities": log_loss(y_new, true_probabilities(X_new)),
    "guessing": np.log(3),
}
for name, loss in losses.items():
    print(f"log-loss of the {name}: {loss:.3f}")

# %%
# There is one panel per class. Far from every row each class has probability 1/3.
axis = np.linspace(-3.6, 3.6, 35)
grid = np.column_stack([part.ravel() for part in np.meshgrid(axis, axis)])
maps = model.predict_proba(grid).T.reshape(3, len(axis), len(axis))
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", sharey=True)
for k, ax in enumerate(axes):
    shades = ax.contourf(axis, axis, maps[k], np.linspace(0, 1, 21), cmap="viridis")
    ax.scatter(*X[y == k].T, color="white", edgecolors="black", label=f"class {k}")
    ax.scatter(*X[y != k].T, s=10, color="black", label="other classes")
    ax.set(title=f"P(class {k})", aspect="equal")
    ax.legend(loc="lower left", fontsize="small")
figure.colorbar(shades, ax=axes, label="probability", ticks=[0, 0.5, 1])
plt.show()
