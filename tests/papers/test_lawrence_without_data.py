"""Figure 4 of Lawrence & Jordan where the paper's own rows are not there."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import image

from atoll.reproductions import lawrence, run_experiment


@pytest.fixture
def short(monkeypatch):
    """Fits of few active rows; what is shown is the same."""
    monkeypatch.setattr(lawrence, "N_ACTIVE_CRESCENT", 10)
    quick = lawrence.paper_options(10) | {"n_rounds": 1}
    monkeypatch.setattr(lawrence, "paper_options", lambda n: quick)


def test_rows_like_the_paper_s_are_drawn_and_the_missing_files_have_folder_and_origin(
    short, tmp_path, monkeypatch
):
    """The picture was white but for a sentence, and the reason named neither."""
    monkeypatch.delenv("ATOLL_DATA", raising=False)
    report = run_experiment("ncnm-fig4", out=tmp_path, quick=True, progress=False, n_jobs=1)
    assert len(report.results) == 2
    (skipped,) = report.skipped
    assert "data_home=" in skipped.reason
    assert "ATOLL_DATA is not set" in skipped.reason
    assert "comes from github.com/" in skipped.reason
    pixels = image.imread(report.figure)[:, :, :3]
    assert np.mean(pixels.min(axis=2) < 0.9) > 0.05
    assert "`data_home=`" in report.page.read_text()
    for result in report.results:
        assert result.values["null_surface"].shape == (81, 81)
        assert result.values["X"].shape == (400, 2)


def test_the_folder_that_lacks_the_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "ncnm_gpc")):
        lawrence.stored_parameters(tmp_path)
