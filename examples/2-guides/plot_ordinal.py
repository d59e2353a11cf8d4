"""
Grades, with their order
========================

Classes such as *poor*, *fair* and *good* have an order, and a classifier that forgets it wastes
labels. ``OrdinalGPClassifier`` learns one function, and the cut points between the grades.
"""

# %%
# The ratings follow one hidden quality, with noise; twenty of two hundred rows are rated. The
# quality rises and falls with the first feature, so that no straight line separates the grades.
import matplotlib.pyplot as plt
import numpy as np

from atoll import OrdinalGPClassifier, ProbitGPClassifier
from atoll.datasets import hide_labels

grades = ["poor", "fair", "good", "superb"]
rng = np.random.default_rng(4)
X = rng.uniform(-3, 3, size=(200, 2))
quality = 2.0 * np.sin(X[:, 0]) + X[:, 1]
truth = np.array(grades)[np.digitize(quality + 0.3 * rng.normal(size=200), [-1.5, 0.3, 2.0])]
y = hide_labels(truth, per_class=5, marker=None, random_state=0)
unrated = np.array([label is None for label in y])

# %%
# ``classes`` gives the order, lowest first. The nominal twin has the same twenty labels and no
# order.
ordinal = OrdinalGPClassifier(classes=grades, n_chains=2, random_state=0).fit(X, y)
nominal = ProbitGPClassifier(n_chains=2, random_state=0).fit(X, y)


def rank(labels):
    return np.array([grades.index(label) for label in labels])


for name, model in {"with the order": ordinal, "without it": nominal}.items():
    distance = np.abs(rank(model.predict(X[unrated])) - rank(truth[unrated]))
    print(
        f"{name:15} wrong {np.mean(distance > 0):.2f}, by {distance.mean():.2f} grades on average"
    )

# %%
# A rank can be averaged, and has an interval. On the right, rows are sorted by their expected rank;
# each bar holds at least eight tenths of the probability.
some = np.flatnonzero(unrated)[:40]
expected = ordinal.predict_rank(X[some])
low, high = (rank(ends) for ends in ordinal.predict_interval(X[some], coverage=0.8).T)
order = np.argsort(expected)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
side = np.linspace(-3, 3, 60)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
surface = ordinal.predict_rank(grid).reshape(60, 60)
picture = left.contourf(side, side, surface, np.linspace(0, 3, 25), cmap="viridis")
for k, marker in enumerate("osD^"):
    rated = ~unrated & (truth == grades[k])
    left.scatter(*X[rated].T, marker=marker, c=[plt.get_cmap("viridis")(k / 3)], s=55,
                 edgecolors="white", label=grades[k])  # fmt: skip
left.legend(loc="lower left", fontsize="small")
left.set(title="Expected rank, and the twenty labels", xlabel="$x_1$", ylabel="$x_2$")
bar = figure.colorbar(picture, ax=left, ticks=range(4))
bar.ax.set_yticklabels(grades)

place = np.arange(len(some))
right.vlines(place, low[order], high[order], colors="lightgrey", linewidth=5)
right.scatter(place, expected[order], c="black", s=12, zorder=3, label="expected rank")
right.scatter(
    place, rank(truth[some])[order], marker="x", c="crimson", s=28, zorder=3, label="truth"
)
right.set_yticks(range(4), grades)
right.set(title="Forty unrated rows, with intervals of 80 %", xlabel="row, by expected rank")
right.legend(fontsize="small", loc="upper left")
plt.show()

# %%
# The cut points between the grades, on the scale of the function plus unit noise:
print(np.round(ordinal.cut_points_, 2))
print(ordinal.diagnostics_["verdict"])
