"""What a label says about a function: one file a likelihood.

Each has `log_prob` (the label given the latent value), and `log_class_probabilities` (the
classes given the latent mean and variance). Those of the auxiliary-variable family, z = f + ε
with ε ~ N(0, 1), also have `regions`, the set of z that a label allows.
"""

from atoll.likelihoods import null_category, probit, softmax

LIKELIHOODS = {"probit": probit, "null_category": null_category, "softmax": softmax}
