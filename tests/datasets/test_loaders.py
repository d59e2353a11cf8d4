from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from scipy import sparse

from atoll.core.labels import parse_labels
from atoll.datasets import (
    ORDINAL_NAMES,
    load_crescent,
    load_digits,
    load_oil_flow,
    load_ordinal,
    load_pcmac,
    load_usps_3vs5,
    load_wine,
)

FIELDS = {"data", "target", "feature_names", "target_names", "description"}
FIRST_FILE = {
    load_crescent: "ncnm_gpc/semisupercrescent.svml",
    load_oil_flow: "oil_flow/DataTrn.txt",
    load_usps_3vs5: "usps/usps_3vs5.npz",
    load_pcmac: "pcmac/text.mat",
}
ORDINAL_COUNTS = {
    "balance_scale": [288, 49, 288],
    "era": [92, 142, 181, 172, 158, 118, 88, 31, 18],
    "esl": [2, 12, 38, 100, 116, 135, 62, 19, 4],
    "lev": [93, 280, 403, 197, 27],
    "swd": [32, 352, 399, 217],
}


def assert_complete(bunch, n_rows, n_features):
    assert set(bunch) >= FIELDS
    assert bunch.data.shape == (n_rows, n_features)
    assert bunch.data.dtype == np.float64
    assert bunch.target.shape == (n_rows,)
    assert len(bunch.feature_names) == n_features
    assert bunch.description


def test_wine_and_digits_come_with_scikit_learn():
    assert_complete(load_wine(), 178, 13)
    assert np.bincount(load_wine().target).tolist() == [59, 71, 48]
    assert load_wine().target_names.tolist() == ["class_0", "class_1", "class_2"]
    assert_complete(load_digits(), 1797, 64)
    assert load_digits().target_names.tolist() == list("0123456789")


def test_crescent_has_13_and_24_labels_and_363_rows_without(data_home):
    crescent = load_crescent(data_home)
    assert_complete(crescent, 400, 2)
    target = crescent.target.tolist()
    assert (target.count(-1), target.count(None), target.count(1)) == (13, 363, 24)
    labels = parse_labels(crescent.target)
    assert labels.classes.tolist() == [-1, 1]
    assert labels.n_labelled == 37


def test_oil_flow_has_three_sets_with_the_published_class_counts(data_home):
    oil = load_oil_flow(data_home)
    assert_complete(oil, 1000, 12)
    assert oil.data_validation.shape == oil.data_test.shape == (1000, 12)
    assert np.bincount(oil.target).tolist() == [343, 316, 341]
    assert np.bincount(oil.target_validation).tolist() == [334, 325, 341]
    assert np.bincount(oil.target_test).tolist() == [324, 363, 313]


def test_usps_has_658_threes_and_556_fives_to_train(data_home):
    usps = load_usps_3vs5(data_home)
    assert_complete(usps, 1214, 256)
    assert usps.data_test.shape == (326, 256)
    assert usps.data.min() >= 0
    assert usps.data.max() <= 1
    assert [(usps.target == digit).sum() for digit in (3, 5)] == [658, 556]
    assert [(usps.target_test == digit).sum() for digit in (3, 5)] == [166, 160]


def test_pcmac_is_sparse_with_unit_rows_and_ten_splits_counted_from_zero(data_home):
    pcmac = load_pcmac(data_home)
    assert_complete(pcmac, 1946, 7511)
    assert isinstance(pcmac.data, sparse.csr_array)
    assert pcmac.data.nnz == 106221
    norms = np.sqrt(pcmac.data.multiply(pcmac.data).sum(axis=1))
    np.testing.assert_allclose(norms, 1.0, rtol=1e-6)
    assert [(pcmac.target == sign).sum() for sign in (-1, 1)] == [961, 985]
    assert pcmac.labelled_splits.shape == (10, 50)
    for labelled, unlabelled in zip(pcmac.labelled_splits, pcmac.unlabelled_splits, strict=True):
        assert np.array_equal(np.sort(np.concatenate([labelled, unlabelled])), np.arange(1946))
        assert set(pcmac.target[labelled]) == {-1, 1}


@pytest.mark.parametrize("name", ORDINAL_NAMES)
def test_ordinal_sets_have_the_published_class_counts_in_order(data_home, name):
    ordinal = load_ordinal(name, data_home)
    counts = ORDINAL_COUNTS[name]
    assert_complete(ordinal, sum(counts), 10 if name == "swd" else 4)
    assert np.bincount(ordinal.target).tolist() == counts
    assert len(ordinal.target_names) == len(counts)


def test_balance_scale_runs_from_left_over_balanced_to_right(data_home):
    scale = load_ordinal("balance_scale", data_home)
    assert scale.target_names.tolist() == ["L", "B", "R"]
    moments = scale.data[:, 2] * scale.data[:, 3] - scale.data[:, 0] * scale.data[:, 1]
    assert np.array_equal(scale.target, 1 + np.sign(moments))


def test_the_environment_variable_names_the_folder_where_no_argument_does(monkeypatch, tmp_path):
    (tmp_path / "ordinal_skordinal").mkdir()
    (tmp_path / "ordinal_skordinal" / "lev.csv").write_text("3,2,low,high\n1,2,0\n3,4,1\n5,6,1\n")
    monkeypatch.setenv("ATOLL_DATA", str(tmp_path))
    ordinal = load_ordinal("lev")
    assert_complete(ordinal, 3, 2)
    assert ordinal.target.tolist() == [0, 1, 1]
    assert ordinal.target_names.tolist() == ["low", "high"]
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        load_ordinal("lev", tmp_path / "elsewhere")


@pytest.mark.parametrize("loader", FIRST_FILE)
def test_a_missing_file_is_named_in_full_with_both_ways_to_set_the_folder(loader, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        loader(tmp_path)
    message = str(caught.value)
    assert str(tmp_path / FIRST_FILE[loader]) in message
    assert "data_home=" in message
    assert "ATOLL_DATA" in message


@pytest.mark.parametrize("loader", FIRST_FILE)
def test_no_folder_at_all_is_said_with_the_file_that_was_wanted(loader, monkeypatch):
    monkeypatch.delenv("ATOLL_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as caught:
        loader()
    message = str(caught.value)
    assert FIRST_FILE[loader] in message
    assert "data_home=" in message
    assert "ATOLL_DATA is not set" in message


def test_an_unknown_ordinal_set_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"name='wine'; choose one of balance_scale, era"):
        load_ordinal("wine")


def test_a_truncated_ordinal_file_is_refused(tmp_path):
    (tmp_path / "ordinal_skordinal").mkdir()
    (tmp_path / "ordinal_skordinal" / "lev.csv").write_text("3,2,low,high\n1,2,0\n3,4,1\n")
    with pytest.raises(ValueError, match=r"lev\.csv' holds 2 rows of 3 .* announces 3 of 3"):
        load_ordinal("lev", tmp_path)


def test_oil_flow_labels_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "oil_flow").mkdir()
    (tmp_path / "oil_flow" / "DataTrn.txt").write_text("1 2\n3 4\n")
    (tmp_path / "oil_flow" / "DataTrnLbls.txt").write_text("1 0 0\n1 1 0\n")
    with pytest.raises(ValueError, match=r"DataTrnLbls\.txt' should hold 2 rows of three"):
        load_oil_flow(tmp_path)


def test_a_missing_second_file_is_named_too(data_home, tmp_path):
    (tmp_path / "oil_flow").mkdir()
    shutil.copy(os.path.join(data_home, "oil_flow", "DataTrn.txt"), tmp_path / "oil_flow")
    with pytest.raises(FileNotFoundError, match=r"DataTrnLbls\.txt"):
        load_oil_flow(tmp_path)


def test_a_file_without_a_folder_to_look_in_is_said_to_lack_one(monkeypatch):
    monkeypatch.delenv("ATOLL_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"^no data folder given, and .* is needed"):
        load_crescent()
