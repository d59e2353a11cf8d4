"""
Long runs: checkpoints, and whether to trust the draws
======================================================

Most models sample their posterior. A long run should survive an interruption, and every run should
say whether its draws can be trusted. The example is a softmax Gaussian process on a pinwheel of
three classes.
"""

# %%
# A run with a checkpoint
# -----------------------
# ``checkpoint=`` names a folder in which each chain is saved as it runs: every half minute, at the
# end, and at Ctrl-C. Ctrl-C keeps the draws made so far, and ``fit`` returns a fitted model.
import tempfile
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from atoll import SoftmaxGPClassifier
from atoll.datasets import make_pinwheel

X, y = make_pinwheel(30, 3, random_state=0)
folder = tempfile.TemporaryDirectory()
settings = {"n_chains": 2, "n_warmup": 200, "random_state": 0}

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # too few draws, as the verdict says
    first = SoftmaxGPClassifier(n_samples=30, checkpoint=folder.name, **settings).fit(X, y)
print(first.diagnostics_["verdict"])

# %%
# More draws, from where it stopped
# ---------------------------------
# The same call with a larger ``n_samples`` continues from the checkpoint. The draws are the same,
# bit for bit, as those of an uninterrupted run. A checkpoint of other data or other settings is
# refused.
model = SoftmaxGPClassifier(n_samples=1000, checkpoint=folder.name, **settings).fit(X, y)
uncut = SoftmaxGPClassifier(n_samples=1000, **settings).fit(X, y)
print(model.diagnostics_["verdict"])
print(all(np.array_equal(model.draws_[name], uncut.draws_[name]) for name in model.draws_))

# %%
# What the numbers mean
# ---------------------
# R-hat compares the chains with each other: values near 1 mean that they agree. The effective
# sample size is the number of independent draws that would be as good, in the bulk and in the
# tails. If the chains disagree, ``fit`` warns, naming the model and the quantity, and says what to
# change.
for name in model.draws_:
    print(
        f"{name:18} R-hat {model.diagnostics_['r_hat'][name]:.3f}   "
        f"ESS {model.diagnostics_['ess_bulk'][name]:4.0f} (bulk), "
        f"{model.diagnostics_['ess_tail'][name]:4.0f} (tail)"
    )
print("acceptance:", model.diagnostics_["acceptance"], " jitter:", model.diagnostics_["jitter"])

# %%
# The chains themselves
# ---------------------
# Chains that have mixed look like one band of noise. ``to_arviz()`` hands the same draws to ArviZ
# for its own plots.
import matplotlib.pyplot as plt

from atoll.plotting import autocorrelation_plot, trace_plot

figure, axes = plt.subplots(2, 2, figsize=(10, 5), layout="constrained")
for row, name in zip(axes, ("log_likelihood", "log_length_scale"), strict=True):
    trace_plot(model.draws_[name], ax=row[0], name=name)
    autocorrelation_plot(model.draws_[name], ax=row[1], name=name)
plt.show()
folder.cleanup()
