"""The demonstration of costly feedback, with few and short runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from demo.feedback.figure import write_html, write_png
from demo.feedback.outcome import BERNOULLI, FIXED, FULL, LABELS, OURS, Run
from demo.feedback.report import comparison, conclusion
from demo.feedback.runs import LOWER, MIDDLE, UPPER, run
from demo.feedback.training import Camera, Training

ROUNDS = 14


@pytest.fixture(scope="module")
def runs(short_searches: None) -> list[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("demo.feedback.training.STEPS", 3)
        return [
            found
            for seed in (0, 1)
            for method in (OURS, FULL, FIXED)
            for found in run(method, seed, ROUNDS, lambda _: None)
        ]


def test_all_methods_ran(runs: list[Run]) -> None:
    assert {r.method for r in runs} == set(LABELS)
    for r in runs:
        assert len(r.settings) == len(r.measured) == ROUNDS
        assert (np.array(r.settings) >= LOWER).all()
        assert (np.array(r.settings) <= UPPER).all()
        assert 0 <= r.accuracy <= 1
        if r.method == FULL:
            assert all(r.measured)
        if r.method == FIXED:
            assert not any(r.measured)
            assert set(r.settings) == {MIDDLE}
        if r.method in (OURS, BERNOULLI):
            assert all(r.measured[:8])


def test_pictures_are_changed_as_the_camera_says() -> None:
    pictures = torch.rand(5, 1, 8, 8)
    generator = torch.Generator().manual_seed(0)
    torch.testing.assert_close(Camera(0.0, 0.0, 0.0).taken(pictures, generator), pictures)
    noisy = Camera(0.0, 0.0, 0.5).taken(torch.zeros(400, 1, 8, 8), generator)
    assert float(noisy.std()) == pytest.approx(0.5, abs=0.02)
    turned = Camera(60.0, 2.0, 0.0).taken(pictures, generator)
    assert turned.shape == pictures.shape
    assert not torch.allclose(turned, pictures, atol=0.1)


def test_training_learns_and_equal_seeds_agree() -> None:
    losses = []
    for _ in range(2):
        training = Training(0)
        before = training.validation_loss()
        for _ in range(4):
            training.train_round(MIDDLE)
        losses.append((before, training.validation_loss(), training.test_accuracy()))
    assert losses[0] == losses[1]
    assert losses[0][1] < 0.9 * losses[0][0]
    assert losses[0][2] > 0.2


def test_report(runs: list[Run]) -> None:
    text = comparison(runs)
    for label in LABELS.values():
        assert label in text
    assert f"{ROUNDS} of {ROUNDS}" in text
    assert "± " in conclusion(runs)
    assert "standard error over 2 seeds" in conclusion(runs)
    assert "±" in conclusion([r for r in runs if r.seed == 0])


def test_figures_are_written(runs: list[Run], tmp_path: Path) -> None:
    write_html(runs, tmp_path / "figure.html")
    write_png(runs, tmp_path / "figure.png")
    assert "Plotly.newPlot" in (tmp_path / "figure.html").read_text(encoding="utf-8")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
