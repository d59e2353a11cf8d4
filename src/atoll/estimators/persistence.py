"""Models in files that hold data alone: loading one runs no code from it.

A model file is one header line, which names the format, the atoll that wrote it and the
checksum of what follows, and then a skops archive: arrays and JSON. skops rebuilds only
objects whose types are trusted by name, and `TRUSTED_TYPES` is that list.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll import __version__
from atoll.core.files import atomic_path
from atoll.core.tables import Preprocessing

FORMAT = 1
"""Raised when a file that an older atoll cannot read is written."""

TRUSTED_TYPES: tuple[str, ...] = (
    "atoll.core.densities.Gaussian",
    "atoll.core.densities.GaussianMixture",
    "atoll.core.densities.NormalInverseWishart",
    "atoll.core.densities.StudentT",
    "atoll.core.densities.WithConstants",
    "atoll.core.graphs.Modes",
    "atoll.core.tables.Preprocessing",
    "atoll.estimators.archipelago.ArchipelagoClassifier",
    "atoll.estimators.archipelago.ArchipelagoDensity",
    "atoll.estimators.dp_mixture.DPMixtureClassifier",
    "atoll.models.dp_mixture.em.Online",
    "atoll.estimators.graph_gp.GraphGPClassifier",
    "atoll.estimators.informative_vector.InformativeVectorClassifier",
    "atoll.estimators.laplacian.LaplacianRLSClassifier",
    "atoll.estimators.laplacian.LaplacianSVC",
    "atoll.estimators.null_category.NullCategoryClassifier",
    "atoll.estimators.ordinal_gp.OrdinalGPClassifier",
    "atoll.estimators.persistence.ModelBundle",
    "atoll.estimators.probit_gp.ProbitGPClassifier",
    "atoll.estimators.softmax_gp.SoftmaxGPClassifier",
    "atoll.estimators.ssgp.SSGPRegressor",
    "atoll.estimators.ssgp.SSGPClassifier",
    "atoll.estimators.transductive_svm.TransductiveSVC",
    "atoll.kernels.graph_spectral.SpectralGraph",
    "atoll.kernels.graph_spectral.SpectralGraphKernel",
    "atoll.kernels.graph_warped.Geometry",
    "atoll.kernels.graph_warped.GraphWarpedKernel",
    "atoll.kernels.hyperparameters.KernelPrior",
    "atoll.likelihoods.multinomial_probit.MultinomialProbit",
    "atoll.likelihoods.null_category.NullCategory",
    "atoll.likelihoods.null_category.OneAgainstTheRest",
    "atoll.likelihoods.ordinal.Ordinal",
    "atoll.likelihoods.probit.Probit",
    "atoll.models.archipelago.ArchipelagoPosterior",
    "atoll.models.dp_mixture.model.MapState",
    "atoll.models.dp_mixture.model.Mixture",
    "atoll.models.dp_mixture.density.MixtureDensity",
    "atoll.models.dp_mixture.prediction.MixturePosterior",
    "atoll.models.dp_mixture.em.Statistics",
    "atoll.models.dp_mixture.model.VariationalState",
    "atoll.models.gaussian_components.Components",
    "atoll.models.gaussian_components.Moments",
    "atoll.models.gaussian_components.NormalPosterior",
    "atoll.models.gaussian_components.NormalPrior",
    "atoll.models.laplacian.LeastSquares",
    "atoll.models.laplacian.SupportVectors",
    "atoll.models.ssgp.posterior.Component",
    "atoll.models.ssgp.posterior.SSGPPosterior",
    "atoll.models.ssgp.regression.RegressionPosterior",
    "atoll.models.informative_vector.SitesPosterior",
    "atoll.models.probit_gp.LatentPosterior",
    "atoll.models.softmax_gp.SoftmaxPosterior",
    "atoll.models.graph_posterior.ConePosterior",
    "atoll.models.graph_posterior.GraphPosterior",
    "atoll.models.graph_posterior.NormalPosterior",
    "atoll.models.graph_posterior.PooledPosterior",
    "atoll.models.graph_posterior.SoftmaxPosterior",
    "atoll.models.transductive_svm.Machines",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.PairwiseKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
)
"""What a model file may hold beyond plain data, NumPy arrays and scikit-learn's estimators."""

_MAGIC = b"atoll model, "
_HEADER = re.compile(
    rb"atoll model, format (\d{1,6}), atoll ([\w.+-]{1,40}), sha256 ([0-9a-f]{64})\n"
)
_LONGEST_HEADER = 160

# What skops, zipfile and the rebuilding of objects raise on a file that is not as it was written.
_REBUILDING_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ImportError,
    NotImplementedError,
    RecursionError,
)


class ModelBundle(NamedTuple):
    """A fitted classifier with the table it was fitted on: what `atoll fit` saves.

    estimator : a fitted classifier
    preprocessing : how new tables are to be treated
    X : (n, p) features, prepared
    y : (n,) labels, None where unlabelled
    target : name of the column of labels
    atoll_version, created : what wrote it and when (ISO 8601, UTC)
    """

    estimator: Any
    preprocessing: Preprocessing
    X: NDArray[np.float64]
    y: NDArray[Any]
    target: str
    atoll_version: str
    created: str


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, whole or not at all.

    Parameters
    ----------
    model : estimator or ModelBundle
    path : path
        Any name; `.atoll` is the custom.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.linear_model import LogisticRegression
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.atoll"
    >>> save_model(LogisticRegression(C=2.0), path)
    >>> load_model(path).C
    2.0
    """
    import skops.io

    try:
        archive = skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED)
    except TypeError as error:  # skops's own, or from an object that has no state to save
        raise ValueError(
            f"the {type(model).__name__} holds an object that cannot be saved as data: {error}"
        ) from error
    digest = hashlib.sha256(archive).hexdigest()
    header = f"atoll model, format {FORMAT}, atoll {__version__}, sha256 {digest}\n"
    with atomic_path(path) as temporary:
        temporary.write_bytes(header.encode("ascii") + archive)


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str | type] = ()) -> Any:
    """Read what `save_model` wrote; no code is run from the file.

    Parameters
    ----------
    path : path
    trusted : sequence of str ("package.module.Type") or type
        Types of your own (a kernel, say) that may be rebuilt, besides `TRUSTED_TYPES`.

    Returns
    -------
    estimator or ModelBundle, with predictions identical to the bit on the same machine

    Raises
    ------
    ValueError
        If the file is missing, truncated, changed since it was written, written by a newer
        format, no model at all, or holds a type that is not trusted.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    name = repr(str(path))
    writer, archive = _read_archive(Path(path))
    trusted_names = {*TRUSTED_TYPES, *map(_type_name, trusted)}
    try:
        return skops.io.loads(archive, trusted=sorted(trusted_names))
    except UntrustedTypesFoundException:
        strangers = sorted(set(skops.io.get_untrusted_types(data=archive)) - trusted_names)
        raise ValueError(
            f"{name} holds objects that atoll does not rebuild from a file: "
            f"{', '.join(strangers)}. If they are yours, name their types in `trusted`; if not, "
            "do not load the file."
        ) from None
    except _REBUILDING_ERRORS as error:
        raise ValueError(
            f"{name} cannot be rebuilt ({type(error).__name__}: {error}); it says that atoll "
            f"{writer} wrote it, and this is atoll {__version__}. Fit and save the model again."
        ) from error


def _read_archive(path: Path) -> tuple[str, bytes]:
    """Version of the atoll that wrote the file, and the archive, checked against its sum."""
    name = repr(str(path))
    if not path.exists():
        raise ValueError(f"there is no model file {name}; check the path.")
    if path.is_dir():
        raise ValueError(f"{name} is a folder; name a model file inside it.")
    content = path.read_bytes()
    header = _HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        if _MAGIC.startswith(content[: len(_MAGIC)]) or content.startswith(_MAGIC):
            raise ValueError(f"{name} is damaged: its first line is incomplete. {_SAVE_AGAIN}")
        raise ValueError(f"{name} is not an atoll model; name a file made by `atoll fit`.")
    file_format, writer = int(header[1]), header[2].decode("ascii")
    if file_format > FORMAT:
        raise ValueError(
            f"{name} was written in format {file_format} by atoll {writer}, and this is atoll "
            f"{__version__}, which reads formats up to {FORMAT}; upgrade atoll to read it."
        )
    archive = content[header.end() :]
    if hashlib.sha256(archive).hexdigest().encode("ascii") != header[3]:
        raise ValueError(
            f"{name} is damaged: it was cut short or changed after it was written. {_SAVE_AGAIN}"
        )
    return writer, archive


_SAVE_AGAIN = "Copy it again from its source, or fit and save the model again."


def _type_name(trusted: str | type) -> str:
    return trusted if isinstance(trusted, str) else f"{trusted.__module__}.{trusted.__qualname__}"
