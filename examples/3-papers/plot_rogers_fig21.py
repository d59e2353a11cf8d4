"""
A gap that unlabelled rows show: the null category
==================================================

A small version of figures 20 and 21 of S. Rogers, *GPs for classification and ordinal regression
via the auxiliary variable trick* (2014): a few labels among many rows. First the unlabelled rows
are ignored; then the null category is used, which lets no row lie between the classes and so moves
the boundary to where there are no rows.

``atoll reproduce rogers-fig20`` and ``rogers-fig21`` run it in full: more data sets, null widths
and covariances, standard errors, and a page that compares the lecture with what was measured.
"""

# %%
# The lecture's data are not available; two long clouds with a gap between them, and three labels in
# each, take their place. ``-1`` marks a row without a label.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from atoll import NullCategoryClassifier, ProbitGPClassifier
from atoll.plotting import decision_map
from atoll.reproductions.rogers import fixed_kernel
from atoll.reproductions.rogers_null_category import hide_all_but, two_clouds

X, truth = two_clouds(60, np.random.default_rng(1))
y = hide_all_but(3, truth)
unlabelled = y == -1

# %%
# The width of the null region is in units of the noise of z. At width 0 the unlabelled rows say
# nothing, and the model is the standard one again.
settings = {
    "kernel": fixed_kernel(0.3), "inference": "mcmc", "n_chains": 2, "n_warmup": 100,
    "n_samples": 300, "unlabelled": -1, "random_state": 0,
}  # fmt: skip
models = {
    "unlabelled rows ignored": ProbitGPClassifier(**settings),
    "null width 1": NullCategoryClassifier(null_width=1.0, **settings),
    "null width 2": NullCategoryClassifier(null_width=2.0, **settings),
}
figure, axes = plt.subplots(1, 3, figsize=(14, 3.6), layout="constrained", sharey=True)
for (name, model), ax in zip(models.items(), axes, strict=True):
    model.fit(X, y)
    loss = log_loss(truth[unlabelled], model.label_distributions_[unlabelled])
    error = np.mean(model.transduction_[unlabelled] != truth[unlabelled])
    print(f"{name}: log-loss {loss:.3f}, error {error:.3f} on the unlabelled rows")
    decision_map(model, X, y, ax=ax, resolution=50, unlabelled=-1, legend=ax is axes[-1])
    ax.set_title(f"{name}\nlog-loss {loss:.2f}, error {error:.2f}")
plt.show()
