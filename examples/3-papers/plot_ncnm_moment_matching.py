"""
Crescents by moment matching
============================

N. D. Lawrence and M. I. Jordan, *Semi-supervised learning via Gaussian processes* (2005), match
moments: rows join the posterior one by one, the most informative first. The informative vector
machine sees only the labelled rows, the null category also the others. Both are deterministic and
take a second.
"""

# %%
# There are four hundred points, each labelled with probability one tenth.
import matplotlib.pyplot as plt
import numpy as np

from atoll import InformativeVectorClassifier, NullCategoryClassifier
from atoll.datasets import make_crescents
from atoll.plotting import decision_map

rng = np.random.default_rng(1)
X, truth = make_crescents(400, random_state=rng)
y = np.where(rng.random(400) < 0.1, truth.astype(object), None)

supervised = InformativeVectorClassifier(n_active=None).fit(X, y)
null_category = NullCategoryClassifier(inference="adf", n_active=100).fit(X, y)

# %%
# The active rows of the null category lie along the edges of the crescents, where an unlabelled row
# is most informative.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for axis, model, title in (
    (axes[0], supervised, "IVM, labelled rows alone"),
    (axes[1], null_category, "null category, 100 active rows"),
):
    decision_map(model, X, y, ax=axis, legend=axis is axes[1])
    active = model.posterior_.inputs[0]
    axis.plot(active[:, 0], active[:, 1], "k.", markersize=4)
    axis.set_title(title)
plt.show()

# %%
# New points may be predicted together: they, too, are outside the null region, and move the
# boundary.
X_new, truth_new = make_crescents(300, random_state=rng)
for name, p in {
    "IVM": supervised.predict_proba(X_new),
    "null category": null_category.predict_proba(X_new),
    "transductive": null_category.predict_proba(X_new, transductive=True),
}.items():
    error = np.mean(p.argmax(axis=1) != truth_new)
    log_loss = -np.log(p[np.arange(300), truth_new]).mean()
    print(f"{name:14s} error {error:.3f}   log-loss {log_loss:.4f}")
