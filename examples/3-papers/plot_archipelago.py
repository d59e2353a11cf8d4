"""
Islands from two labels each: Archipelago
=========================================

A small version of figure 3 of R. P. Adams and Z. Ghahramani, *Archipelago: nonparametric Bayesian
semi-supervised learning* (2009): a pinwheel of four arms, with two labels on each. A classifier
that sees only the labelled rows draws plain borders between eight points; Archipelago learns from
the other rows where the islands are, and each label colours its own island.

``atoll reproduce archipelago-fig3`` and ``archipelago-table1`` run it in full.
"""

# %%
# ``-1`` marks a row without a label.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from atoll import ArchipelagoClassifier, SoftmaxGPClassifier
from atoll.datasets import hide_labels, make_pinwheel
from atoll.plotting import decision_map

X, truth = make_pinwheel(60, n_classes=4, rate=0.5, random_state=1)
y = hide_labels(truth, per_class=2, random_state=1)
X_test, y_test = make_pinwheel(900, n_classes=4, rate=0.5, random_state=2)

# %%
# Both models have the same kernel and prior. The chains are short here: the verdict, printed below,
# says so, and the warning may be ignored.
warnings.simplefilter("ignore", ConvergenceWarning)
models = {
    "softmax GP, labelled rows alone": SoftmaxGPClassifier(n_chains=2, random_state=0),
    "Archipelago, all rows": ArchipelagoClassifier(
        n_chains=2, n_warmup=150, n_samples=150, random_state=0
    ),
}
figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
for (name, model), ax in zip(models.items(), axes):
    model.fit(X, y)
    error = np.mean(model.predict(X_test) != y_test)
    loss = -np.log(model.predict_proba(X_test)[np.arange(len(y_test)), y_test]).mean()
    print(f"{name}: error {error:.3f}, perplexity {np.exp(loss):.2f} on new rows")
    decision_map(model, X, y, ax=ax, resolution=40, unlabelled=-1, legend=ax is axes[0])
    ax.set_title(f"{name}\nerror {error:.2f}, perplexity {np.exp(loss):.2f}")

# The same posterior also says how far a place is from every island, by the probability that a row
# proposed there is rejected. And it can draw new rows, here of the first class.
low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
grid = np.stack(np.meshgrid(*np.linspace(low, high, 50).T), axis=-1)
rejection = models["Archipelago, all rows"].predict_rejection(grid.reshape(-1, 2)).reshape(50, 50)
fantasies, _ = models["Archipelago, all rows"].sample(60, label=0, random_state=0)
image = axes[2].pcolormesh(grid[..., 0], grid[..., 1], rejection, cmap="Blues", vmin=0, vmax=1)
axes[2].plot(*X.T, "o", ms=3, color="0.45", label="rows")
axes[2].plot(*fantasies.T, "+", ms=6, color="black", label="fantasies of class 0")
axes[2].legend(loc="lower left")
axes[2].set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
axes[2].set_title("probability of rejection: the sea")
figure.colorbar(image, ax=axes[2])
plt.show()

# %%
# The verdict on the chains, and the mean number of rejections in their states.
print(models["Archipelago, all rows"].diagnostics_["verdict"])
print(f"{models['Archipelago, all rows'].draws_['n_rejections'].mean():.0f} rejections on average")
