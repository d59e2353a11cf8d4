"""What a label says about a function: one file a likelihood.

Each has `log_prob` (the label given the latent value), `log_class_probabilities` (the classes given
the latent mean and variance) and `sample` (labels given the latent value). Those of the
auxiliary-variable family, z = f + ε with ε ~ N(0, 1), also have `regions`, the set of z that a
label allows, and, where those regions have free parameters, a `family` of them with a prior.
"""

from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit, softmax

LIKELIHOODS = {
    "probit": probit,
    "multinomial_probit": multinomial_probit,
    "ordinal": ordinal,
    "null_category": null_category,
    "softmax": softmax,
}
