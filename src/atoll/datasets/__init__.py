"""Generators and loaders of data sets, and `hide_labels`."""

from atoll.datasets.generators import (
    DATASETS,
    make_crescents,
    make_pinwheel,
    make_rings,
    make_spirals,
)
from atoll.datasets.labelling import hide_labels
from atoll.datasets.loaders import (
    ORDINAL_NAMES,
    load_crescent,
    load_digit1,
    load_digits,
    load_oil_flow,
    load_ordinal,
    load_pcmac,
    load_usps_3vs5,
    load_wine,
)
from atoll.datasets.ssl_book import SSL_BOOK_LABELS, SSL_BOOK_NAMES, load_ssl_book

__all__ = [
    "DATASETS",
    "ORDINAL_NAMES",
    "SSL_BOOK_LABELS",
    "SSL_BOOK_NAMES",
    "hide_labels",
    "load_crescent",
    "load_digit1",
    "load_digits",
    "load_oil_flow",
    "load_ordinal",
    "load_pcmac",
    "load_ssl_book",
    "load_usps_3vs5",
    "load_wine",
    "make_crescents",
    "make_pinwheel",
    "make_rings",
    "make_spirals",
]
