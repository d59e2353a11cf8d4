"""Packages that only some uses of atoll need, and the extras of atoll that install them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Extra(NamedTuple):
    """An extra of atoll, as in ``pip install "atoll[name]"``, and what it is needed for.

    package : what it installs, where that has another name than the module imported
    """

    name: str
    purpose: str
    package: str = ""


EXTRAS = {
    "PIL": Extra("app", "Reading pictures", "pillow"),
    "arviz": Extra("arviz", "Handing draws to ArviZ"),
    "dask": Extra("dask", "Fitting rows on a cluster"),
    "jax": Extra("scale", "Fitting Archipelago at scale"),
    "jinja2": Extra("report", "Writing a report"),
    "matplotlib": Extra("plot", "Drawing pictures"),
    "pandas": Extra("tables", "Reading and writing tables"),
    "pyarrow": Extra("tables", "Reading and writing Parquet files"),
    "starlette": Extra("app", "The labelling page"),
    "typer": Extra("cli", "The command line"),
    "uvicorn": Extra("app", "The labelling page"),
    "usearch": Extra("ann", "Finding neighbours approximately"),
}
"""Every package outside the core that atoll imports, and the extra that installs it."""


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed; the message says how to install it."""


def import_extra(module: str) -> ModuleType:
    """Import a module of a package that an extra of atoll installs.

    Parameters
    ----------
    module : str
        Dotted name, such as ``"matplotlib.figure"``. Its first part is one of `EXTRAS`.

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        If the package is not installed. A package that is installed but lacks something that it
        needs itself raises its own error.

    Examples
    --------
    >>> import_extra("pandas.api.types").is_numeric_dtype(float)
    True
    """
    package = module.partition(".")[0]
    extra = EXTRAS[package]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtraError(
            f"{extra.purpose} needs {extra.package or package}, which is not installed. "
            f'Install it with: pip install "atoll[{extra.name}]"',
            name=package,
        ) from None
    return import_module(module)
