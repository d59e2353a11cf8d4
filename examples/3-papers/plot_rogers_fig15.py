r"""
A probit Gaussian process as its kernel narrows
===============================================

A small version of figure 15 of S. Rogers, *GPs for classification and ordinal regression via the
auxiliary variable trick* (2014): the probability of a class under the covariance
:math:`\exp(-\gamma \lVert x - x' \rVert^2)`, held fixed, for growing :math:`\gamma`. The lecture's
conclusion is that "as γ is increased, the model overfits".

``atoll reproduce rogers-fig15`` runs it in full: more widths, more data sets, standard errors, and
a page that compares the lecture with what was measured.
"""

# %%
# The lecture's data are not available; two overlapping Gaussians take their place.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss

from atoll import ProbitGPClassifier
from atoll.plotting import decision_map
from atoll.reproductions.rogers import length_scale, two_gaussians

rng_train, rng_test = np.random.default_rng(0).spawn(2)
X, y = two_gaussians(60, rng_train)
X_new, y_new = two_gaussians(1000, rng_test)

# %%
# ``length_scale_bounds="fixed"`` keeps a kernel's parameter as given; a free one would be sampled.
# As γ grows, the loss on the fitted rows keeps falling, but the loss on new rows does not.
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for gamma, ax in zip((0.03, 0.3, 10.0), axes, strict=True):
    kernel = RBF(length_scale(gamma), length_scale_bounds="fixed")
    model = ProbitGPClassifier(
        kernel=kernel, n_chains=2, n_warmup=50, n_samples=200, random_state=0
    ).fit(X, y)
    fitted = log_loss(y, model.predict_proba(X))
    new = log_loss(y_new, model.predict_proba(X_new))
    print(f"gamma {gamma:5g}: log-loss {fitted:.3f} on fitted rows, {new:.3f} on new ones")
    decision_map(model, X, y, ax=ax, resolution=60, legend=gamma == 10.0)
    ax.set_title(f"$\\gamma$ = {gamma:g}\nlog-loss {fitted:.2f} fitted, {new:.2f} new")
plt.show()
