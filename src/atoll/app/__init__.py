"""A page in the browser on which a person labels rows by single keys.

`atoll label DATA --target COLUMN` starts it. The page shows the rows that a model has most to learn
from, keeps every answer in a file beside the data, and says how wrong the model still is and when
labelling may stop.
"""

from __future__ import annotations

from atoll.app.features import Features, make_features
from atoll.app.items import Rows, read_rows
from atoll.app.session import Session, StaleError
from atoll.app.store import LabelLog

__all__ = [
    "Features",
    "LabelLog",
    "Rows",
    "Session",
    "StaleError",
    "make_features",
    "read_rows",
]
