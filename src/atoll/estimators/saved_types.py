"""The types that a model file may hold, each under a name that outlives its place in the code.

In a file, an object of ours is a record: the stable name of its type, the version of the type and
the object's fields by name. `TYPES` is the one list of names.

A new estimator, or a type in its file
    Nothing for the estimator; list the type in the estimator's `saves`. Both go by the names of
    their classes ("NearestMeans" is "nearest-means").
Any other new type
    Add a line to `TYPES`, under a name that no type has had before.
A type that was moved or renamed in the code
    Change its path. The stable name stays.
A new field or parameter with a default
    Nothing: an older file takes the default.
Any other change of what an object holds
    Append a function to the type's upgrades. It takes the fields of the last version, by name, and
    returns those of the next. The version follows from the number of upgrades.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from atoll.estimators import saved_upgrades as upgrades
from atoll.estimators.saved_arrays import PackedWords

Fields = dict[str, Any]


class SavedType(NamedTuple):
    """Where a type is defined, and how its older versions are read.

    path : "package.module.Type"; imported only when an object of the type is met
    upgrades : from version 1 to 2, from 2 to 3, ...; each takes the fields that an object had
        and returns those it would have now. Objects among the fields are up to date already.
    """

    path: str
    upgrades: tuple[Callable[[Fields], Fields], ...] = ()

    @property
    def version(self) -> int:
        return 1 + len(self.upgrades)

    def load(self) -> type:
        """Import the type."""
        module, _, name = self.path.rpartition(".")
        found: type = getattr(importlib.import_module(module), name)
        return found


TYPES: dict[str, SavedType] = {
    # Estimators, and what the command line saves.
    "archipelago-classifier": SavedType(
        "atoll.estimators.archipelago.ArchipelagoClassifier", (upgrades.archipelago_classifier_2,)
    ),
    "archipelago-density": SavedType(
        "atoll.estimators.archipelago.ArchipelagoDensity", (upgrades.estimator_2,)
    ),
    "dp-mixture-classifier": SavedType(
        "atoll.estimators.dp_mixture.DPMixtureClassifier", (upgrades.dp_mixture_classifier_2,)
    ),
    "graph-gp-classifier": SavedType(
        "atoll.estimators.graph_gp.GraphGPClassifier", (upgrades.graph_gp_classifier_2,)
    ),
    "informative-vector-classifier": SavedType(
        "atoll.estimators.informative_vector.InformativeVectorClassifier",
        (upgrades.informative_vector_classifier_2,),
    ),
    "laplacian-rls-classifier": SavedType(
        "atoll.estimators.laplacian.LaplacianRLSClassifier", (upgrades.laplacian_rls_classifier_2,)
    ),
    "laplacian-svc": SavedType(
        "atoll.estimators.laplacian.LaplacianSVC", (upgrades.laplacian_svc_2,)
    ),
    "model-bundle": SavedType("atoll.estimators.persistence.ModelBundle"),
    "null-category-classifier": SavedType(
        "atoll.estimators.null_category.NullCategoryClassifier",
        (upgrades.null_category_classifier_2,),
    ),
    "ordinal-gp-classifier": SavedType(
        "atoll.estimators.ordinal_gp.OrdinalGPClassifier", (upgrades.ordinal_gp_classifier_2,)
    ),
    "probit-gp-classifier": SavedType(
        "atoll.estimators.probit_gp.ProbitGPClassifier", (upgrades.probit_gp_classifier_2,)
    ),
    "softmax-gp-classifier": SavedType(
        "atoll.estimators.softmax_gp.SoftmaxGPClassifier", (upgrades.estimator_2,)
    ),
    "ssgp-classifier": SavedType(
        "atoll.estimators.ssgp.SSGPClassifier", (upgrades.ssgp_classifier_2,)
    ),
    "ssgp-regressor": SavedType(
        "atoll.estimators.ssgp.SSGPRegressor", (upgrades.ssgp_regressor_2,)
    ),
    "transductive-svc": SavedType(
        "atoll.estimators.transductive_svm.TransductiveSVC", (upgrades.transductive_svc_2,)
    ),
    "blend-classifier": SavedType("atoll.comparison.blending.BlendClassifier"),
    "semi-supervised-k-fold": SavedType("atoll.estimators.model_selection.SemiSupervisedKFold"),
    # Posteriors and their parts.
    "archipelago-posterior": SavedType("atoll.models.archipelago.prediction.ArchipelagoPosterior"),
    "archipelago-engine-posterior": SavedType(
        "atoll.models.archipelago.engine.posterior.EnginePosterior"
    ),
    "archipelago-engine-online": SavedType("atoll.models.archipelago.engine.online.Online"),
    "archipelago-engine-scaling": SavedType("atoll.models.archipelago.engine.posterior.Scaling"),
    "calibrated-machine": SavedType("atoll.models.calibration.CalibratedMachine"),
    "calibration": SavedType("atoll.models.calibration.Calibration"),
    "graph-near-votes": SavedType("atoll.models.average.near_votes.NearVotes"),
    "graph-cone-posterior": SavedType("atoll.models.graph_posterior.ConePosterior"),
    "graph-normal-posterior": SavedType("atoll.models.graph_posterior.NormalPosterior"),
    "graph-pooled-posterior": SavedType("atoll.models.graph_posterior.PooledPosterior"),
    "graph-posterior": SavedType("atoll.models.graph_posterior.GraphPosterior"),
    "graph-softmax-posterior": SavedType("atoll.models.graph_posterior.SoftmaxPosterior"),
    "latent-posterior": SavedType(
        "atoll.models.probit_gp.LatentPosterior", (upgrades.latent_posterior_2,)
    ),
    "mixture-density": SavedType("atoll.models.dp_mixture.density.MixtureDensity"),
    "mixture-posterior": SavedType("atoll.models.dp_mixture.prediction.MixturePosterior"),
    "laplacian-least-squares": SavedType("atoll.models.laplacian.LeastSquares"),
    "laplacian-support-vectors": SavedType("atoll.models.laplacian.SupportVectors"),
    "sites-posterior": SavedType(
        "atoll.models.informative_vector.SitesPosterior", (upgrades.sites_posterior_2,)
    ),
    "softmax-posterior": SavedType("atoll.models.softmax_gp.SoftmaxPosterior"),
    "ssgp-component": SavedType("atoll.models.ssgp.posterior.Component"),
    "ssgp-posterior": SavedType("atoll.models.ssgp.posterior.SSGPPosterior"),
    "ssgp-regression-posterior": SavedType("atoll.models.ssgp.regression.RegressionPosterior"),
    "transductive-machines": SavedType("atoll.models.transductive_svm.Machines"),
    # Likelihoods.
    "multinomial-probit": SavedType("atoll.likelihoods.multinomial_probit.MultinomialProbit"),
    "null-category": SavedType("atoll.likelihoods.null_category.NullCategory"),
    "one-against-the-rest": SavedType("atoll.likelihoods.null_category.OneAgainstTheRest"),
    "ordinal": SavedType("atoll.likelihoods.ordinal.Ordinal"),
    "probit": SavedType("atoll.likelihoods.probit.Probit"),
    # The recipe of the graph's classifier.
    "graph-recipe": SavedType("atoll.models.graph_recipe.Recipe"),
    "graph-recipe-argmax": SavedType("atoll.models.graph_recipe.ArgmaxRecipe"),
    "graph-recipe-choice": SavedType("atoll.models.graph_recipe.ChoiceRecipe"),
    "graph-recipe-left-out": SavedType("atoll.models.graph_recipe.LeftOutRecipe"),
    "graph-recipe-labellings": SavedType("atoll.models.graph_recipe.LabellingRecipe"),
    "graph-recipe-prior": SavedType("atoll.models.graph_recipe.PriorRecipe"),
    "graph-recipe-probit": SavedType("atoll.models.graph_recipe.ProbitRecipe"),
    "graph-recipe-softmax": SavedType("atoll.models.graph_recipe.SoftmaxRecipe"),
    # What a mixture keeps to learn on from more rows.
    "gaussian-components": SavedType("atoll.models.gaussian_components.Components"),
    "gaussian-components-moments": SavedType("atoll.models.gaussian_components.Moments"),
    "gaussian-components-posterior": SavedType("atoll.models.gaussian_components.NormalPosterior"),
    "gaussian-components-prior": SavedType("atoll.models.gaussian_components.NormalPrior"),
    "mixture-map-state": SavedType("atoll.models.dp_mixture.model.MapState"),
    "mixture-model": SavedType("atoll.models.dp_mixture.model.Mixture"),
    "mixture-online": SavedType("atoll.models.dp_mixture.em.Online"),
    "mixture-statistics": SavedType("atoll.models.dp_mixture.em.Statistics"),
    "mixture-tempering": SavedType("atoll.models.dp_mixture.tempering.Tempering"),
    "mixture-variational-state": SavedType("atoll.models.dp_mixture.model.VariationalState"),
    # Labels that were held out.
    "labels-foretold": SavedType("atoll.models.foretold.Foretold"),
    # Kernels, graphs, densities, tables.
    "blurred-rows": SavedType("atoll.core.densities.Blurred"),
    "density-with-constants": SavedType("atoll.core.densities.WithConstants"),
    "gaussian": SavedType("atoll.core.densities.Gaussian"),
    "gaussian-mixture": SavedType("atoll.core.densities.GaussianMixture"),
    "graph-modes": SavedType("atoll.core.graphs.Modes"),
    "graph-warped-geometry": SavedType("atoll.kernels.graph_warped.Geometry"),
    "graph-warped-kernel": SavedType("atoll.kernels.graph_warped.GraphWarpedKernel"),
    "detailed-rbf": SavedType("atoll.kernels.detailed.DetailedRBF"),
    "kernel-prior": SavedType("atoll.kernels.hyperparameters.KernelPrior"),
    "packed-words": SavedType("atoll.estimators.saved_arrays.PackedWords"),
    "normal-inverse-wishart": SavedType("atoll.core.densities.NormalInverseWishart"),
    "text-words": SavedType("atoll.core.texts.Words"),
    "preprocessing": SavedType("atoll.core.preprocessing.Preprocessing"),
    "value-spans": SavedType("atoll.core.value_spans.Spans"),
    "table-preprocessor": SavedType("atoll.estimators.tables.TablePreprocessor"),
    "spectral-graph": SavedType("atoll.kernels.graph_spectral.SpectralGraph"),
    "spectral-graph-kernel": SavedType("atoll.kernels.graph_spectral.SpectralGraphKernel"),
    "student-t": SavedType("atoll.core.densities.StudentT"),
}
"""Stable name -> type. A name never changes, because files hold it."""

_NAMES = {saved.path: name for name, saved in TYPES.items()}


def _declared() -> Iterator[tuple[str, SavedType]]:
    """Yield name and type of estimators without a line in `TYPES`, and of what they save.

    The default classifier comes first, so that others need not be imported to find it.
    """
    estimators = importlib.import_module("atoll.estimators")
    public = (getattr(estimators, name) for name in estimators.__all__)
    for kind in itertools.chain(estimators.MODELS.values(), public):
        if inspect.isclass(kind):
            for saved in (kind, *kind.saves) if hasattr(kind, "saves") else ():
                path = f"{saved.__module__}.{saved.__qualname__}"
                if path not in _NAMES:
                    yield _dashed(saved.__name__), SavedType(path)


def _dashed(name: str) -> str:
    """Return a class's name in lower case with dashes."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


class UnreadableRecord(ValueError):
    """A record of a type, or of a version of a type, that this atoll does not know."""


class Layout(NamedTuple):
    """How objects of a type are saved in a file: its stable name, version and fields.

    `fields` are those of a tuple, in their order; empty for other objects, whose fields are their
    attributes.
    """

    name: str
    version: int
    fields: tuple[str, ...]


def present_layout(path: str) -> Layout | None:
    """Return the layout of the type at "package.module.Type", or None where it is not ours.

    Raises
    ------
    TypeError
        If it is ours and has no stable name.
    """
    if not path.startswith("atoll."):
        return None
    name = _NAMES.get(path) or next((n for n, t in _declared() if t.path == path), None)
    if name is None:
        raise TypeError(
            f"{path} has no stable name; list it in `saves` of its estimator, or in "
            "atoll.estimators.saved_types."
        )
    saved = _type_of(name)
    assert saved is not None  # it has a name
    return Layout(name, saved.version, getattr(saved.load(), "_fields", ()))


def _type_of(name: str) -> SavedType | None:
    return TYPES.get(name) or next((saved for n, saved in _declared() if n == name), None)


def readable_type(name: Any, version: Any) -> SavedType:
    """Return the type of a record, or raise an `UnreadableRecord` that says what is not known."""
    saved = _type_of(name) if isinstance(name, str) else None
    if saved is None:
        raise UnreadableRecord(f"an object of the kind {name!r}, which this atoll does not know")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UnreadableRecord(f"an object of the kind {name!r} without a version")
    if version > saved.version:
        raise UnreadableRecord(
            f"version {version} of {name!r}, of which this atoll reads versions up to "
            f"{saved.version}"
        )
    return saved


def rebuilt(header: Fields, *values: Any) -> Any:
    """Return the object that a record describes.

    Parameters
    ----------
    header : dict with `name` and `version` of the type, and `fields`, the names of `values`
    """
    saved = readable_type(header["name"], header["version"])
    fields = dict(zip(header["fields"], values, strict=True))
    for upgrade in saved.upgrades[header["version"] - 1 :]:
        fields = upgrade(fields)
    kind = saved.load()
    if issubclass(kind, tuple) or dataclasses.is_dataclass(kind):
        found = kind(**fields)
        return found.unpacked() if isinstance(found, PackedWords) else found
    instance = kind.__new__(kind)
    state = _default_parameters(kind) | fields
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
    else:
        instance.__dict__.update(state)
    return instance


def _default_parameters(kind: type) -> Fields:
    """Defaults of an estimator's or a kernel's parameters; none of other types."""
    if not hasattr(kind, "get_params"):
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}
