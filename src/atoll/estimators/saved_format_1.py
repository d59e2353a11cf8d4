"""The types of format 1, which atoll 0.1 wrote, and which went by their place in its code.

This is history: it does not change when the code does.
"""

from __future__ import annotations

from atoll.estimators.saved_types import Layout

# path in atoll 0.1 -> stable name, and the fields of a tuple in their order then
TYPES: dict[str, tuple[str, str]] = {
    "atoll.core.densities.Gaussian": ("gaussian", "mean lower"),
    "atoll.core.densities.GaussianMixture": ("gaussian-mixture", "weights means lowers"),
    "atoll.core.densities.NormalInverseWishart": (
        "normal-inverse-wishart",
        "centre strength scale df",
    ),
    "atoll.core.densities.StudentT": ("student-t", "mean lower df"),
    "atoll.core.densities.WithConstants": ("density-with-constants", "density varies values"),
    "atoll.core.graphs.Modes": ("graph-modes", "values vectors"),
    "atoll.core.tables.Preprocessing": (
        "preprocessing",
        "columns categories features mean scale standardised",
    ),
    "atoll.estimators.archipelago.ArchipelagoClassifier": ("archipelago-classifier", ""),
    "atoll.estimators.archipelago.ArchipelagoDensity": ("archipelago-density", ""),
    "atoll.estimators.auxiliary_gp.NullCategoryClassifier": ("null-category-classifier", ""),
    "atoll.estimators.auxiliary_gp.ProbitGPClassifier": ("probit-gp-classifier", ""),
    "atoll.estimators.dp_mixture.DPMixtureClassifier": ("dp-mixture-classifier", ""),
    "atoll.estimators.dp_mixture.Online": ("mixture-online", "model state average n_seen n_steps"),
    "atoll.estimators.graph_gp.GraphGPClassifier": ("graph-gp-classifier", ""),
    "atoll.estimators.graph_gp.GraphPosterior": (
        "graph-posterior",
        "rows features kept coefficients",
    ),
    "atoll.estimators.informative_vector.InformativeVectorClassifier": (
        "informative-vector-classifier",
        "",
    ),
    "atoll.estimators.laplacian.LaplacianRLSClassifier": ("laplacian-rls-classifier", ""),
    "atoll.estimators.laplacian.LaplacianSVC": ("laplacian-svc", ""),
    "atoll.estimators.ordinal_gp.OrdinalGPClassifier": ("ordinal-gp-classifier", ""),
    "atoll.estimators.persistence.ModelBundle": (
        "model-bundle",
        "estimator preprocessing X y target atoll_version created",
    ),
    "atoll.estimators.softmax_gp.SoftmaxGPClassifier": ("softmax-gp-classifier", ""),
    "atoll.estimators.ssgp.GraphGPRegressor": ("ssgp-regressor", ""),
    "atoll.estimators.ssgp.SSGPClassifier": ("ssgp-classifier", ""),
    "atoll.estimators.transductive_svm.TransductiveSVC": ("transductive-svc", ""),
    "atoll.kernels.graph_spectral.SpectralGraph": ("spectral-graph", ""),
    "atoll.kernels.graph_spectral.SpectralGraphKernel": ("spectral-graph-kernel", ""),
    "atoll.kernels.graph_warped.Geometry": ("graph-warped-geometry", ""),
    "atoll.kernels.graph_warped.GraphWarpedKernel": ("graph-warped-kernel", ""),
    "atoll.kernels.hyperparameters.KernelPrior": (
        "kernel-prior",
        "kernel names mean sd variance_index",
    ),
    "atoll.models.archipelago.ArchipelagoPosterior": (
        "archipelago-posterior",
        "inputs prior base n_classes chains n_rejections rejections whitened log_parameters "
        "mixing base_means base_lowers log_weights",
    ),
    "atoll.models.dp_mixture.MapState": ("mixture-map-state", "class_weights sticks components"),
    "atoll.models.dp_mixture.Mixture": ("mixture-model", ""),
    "atoll.models.dp_mixture.MixtureDensity": ("mixture-density", "mixture"),
    "atoll.models.dp_mixture.MixturePosterior": (
        "mixture-posterior",
        "covariance shift scale log_class_weights log_weights means spread loadings degrees",
    ),
    "atoll.models.dp_mixture.Statistics": ("mixture-statistics", ""),
    "atoll.models.dp_mixture.VariationalState": (
        "mixture-variational-state",
        "class_counts sticks components",
    ),
    "atoll.models.gaussian_components.Components": ("gaussian-components", "means spread loadings"),
    "atoll.models.gaussian_components.Moments": (
        "gaussian-components-moments",
        "features projected common",
    ),
    "atoll.models.gaussian_components.NormalPosterior": (
        "gaussian-components-posterior",
        "means mean_precisions degrees scales",
    ),
    "atoll.models.gaussian_components.NormalPrior": (
        "gaussian-components-prior",
        "mean mean_precision degrees covariance_scale",
    ),
    "atoll.models.graph_gp.Component": (
        "ssgp-component",
        "kernel scale weights whitener log_weight",
    ),
    "atoll.models.graph_gp.SSGPPosterior": ("ssgp-posterior", "inputs components noise"),
    "atoll.models.informative_vector.SitesPosterior": (
        "sites-posterior",
        "prior log_parameters inputs weights noise_variance bias null_width log_rates "
        "likelihood_variance",
    ),
    "atoll.models.probit_gp.LatentPosterior": (
        "latent-posterior",
        "prior inputs log_parameters weights region_parameters auxiliary_variance noise_variance",
    ),
    "atoll.models.softmax_gp.SoftmaxPosterior": (
        "softmax-posterior",
        "prior inputs log_parameters weights",
    ),
    "atoll.models.spectral_graph_gp.ConePosterior": (
        "graph-cone-posterior",
        "coefficients weights n_sweeps memory",
    ),
    "atoll.models.spectral_graph_gp.NormalPosterior": (
        "graph-normal-posterior",
        "mean covariance log_evidences converged",
    ),
    "atoll.models.spectral_graph_gp.SoftmaxPosterior": (
        "graph-softmax-posterior",
        "coefficients weights log_amplitudes n_steps memory",
    ),
}


def layout(path: str) -> Layout | None:
    """Return the layout in format 1 of the type at a path, or None where it is not ours.

    Examples
    --------
    >>> layout("atoll.core.graphs.Modes")
    Layout(name='graph-modes', version=1, fields=('values', 'vectors'))
    """
    if path not in TYPES:
        return None
    name, fields = TYPES[path]
    return Layout(name, 1, tuple(fields.split()))
