"""A training run whose augmentation and dropout can be changed from round to round.

A small network learns from 600 clean pictures of digits, those that ship with scikit-learn, and is
to read pictures of a camera that turns, shifts and blurs them with noise, by how much nobody knows.
There are 600 labelled pictures of that camera to measure with; the other 597 are the test. Which
augmentation teaches the network most depends on the camera, and on how far the training is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

BOUNDS = {"rotation": (0.0, 60.0), "shift": (0.0, 2.0), "noise": (0.0, 0.6), "dropout": (0.0, 0.7)}
"""What is tuned: largest angle in degrees, largest shift in pixels, standard deviation of the noise
(pictures have values from 0 to 1), share of units that are dropped."""

NUM_TRAINING, NUM_VALIDATION = 600, 600
STEPS, BATCH, WIDTH, LEARNING_RATE = 30, 64, 64, 2e-3


@dataclass(frozen=True)
class Camera:
    """What a camera does to pictures; not known to whoever trains."""

    rotation: float
    """Largest angle, in degrees."""

    shift: float
    """Largest shift, in pixels."""

    noise: float
    """Standard deviation of the noise."""

    @classmethod
    def of(cls, seed: int) -> Camera:
        """A camera drawn at random."""
        generator = np.random.default_rng((2, seed))
        return cls(
            float(generator.uniform(0, 45)),
            float(generator.uniform(0, 1.2)),
            float(generator.uniform(0, 0.25)),
        )

    def taken(self, pictures: Tensor, generator: torch.Generator) -> Tensor:
        """Pictures as the camera takes them, ``n x 1 x 8 x 8``."""
        count = len(pictures)
        angle = (2 * torch.rand(count, generator=generator) - 1) * math.radians(self.rotation)
        # In the coordinates of ``affine_grid``, in which a picture is two wide, eight pixels.
        shift = (2 * torch.rand(count, 2, generator=generator) - 1) * self.shift / 4
        cos, sin = angle.cos(), angle.sin()
        rows = torch.stack([cos, -sin, shift[:, 0]], 1), torch.stack([sin, cos, shift[:, 1]], 1)
        grid = functional.affine_grid(
            torch.stack(rows, 1), list(pictures.shape), align_corners=False
        )
        moved = functional.grid_sample(pictures, grid, align_corners=False)
        return moved + self.noise * torch.randn(moved.shape, generator=generator)


class Training:
    """One training run; equal seeds give equal runs.

    Args:
        seed: Of the camera, the split of the pictures, the network and the training.
    """

    def __init__(self, seed: int) -> None:
        self.camera = Camera.of(seed)
        self._generator = torch.Generator().manual_seed(1000 + seed)
        pictures, labels = load_digits(return_X_y=True)
        order = torch.randperm(len(labels), generator=self._generator)
        X = torch.tensor(pictures / 16, dtype=torch.float).view(-1, 1, 8, 8)[order]
        y = torch.tensor(labels)[order]
        self._X, self._y = X[:NUM_TRAINING], y[:NUM_TRAINING]
        taken = self.camera.taken(X[NUM_TRAINING:], self._generator)
        self._validation = taken[:NUM_VALIDATION], y[NUM_TRAINING:][:NUM_VALIDATION]
        self._test = taken[NUM_VALIDATION:], y[NUM_TRAINING:][NUM_VALIDATION:]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._layers = nn.ModuleList(
                [nn.Linear(64, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)]
            )
        self._optimizer = torch.optim.Adam(self._layers.parameters(), LEARNING_RATE)

    def train_round(self, setting: Sequence[float]) -> None:
        """Train for a round of minibatches.

        Args:
            setting: A value for each of ``BOUNDS``, in their order.
        """
        rotation, shift, noise, dropout = (float(value) for value in setting)
        augmentation = Camera(rotation, shift, noise)
        for _ in range(STEPS):
            batch = torch.randint(len(self._y), (BATCH,), generator=self._generator)
            pictures = augmentation.taken(self._X[batch], self._generator)
            loss = functional.cross_entropy(self._scores(pictures, dropout), self._y[batch])
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()

    def validation_loss(self) -> float:
        """Cross-entropy on the labelled pictures of the camera: a measurement."""
        pictures, labels = self._validation
        with torch.no_grad():
            return float(functional.cross_entropy(self._scores(pictures), labels))

    def test_accuracy(self) -> float:
        """Share of the test pictures that are read correctly; not used in training."""
        pictures, labels = self._test
        with torch.no_grad():
            return float((self._scores(pictures).argmax(dim=-1) == labels).float().mean())

    def _scores(self, pictures: Tensor, dropout: float = 0.0) -> Tensor:
        x = pictures.flatten(1)
        for layer in self._layers[:-1]:
            x = functional.relu(layer(x))
            if dropout:
                # Not by ``functional.dropout``, which draws from torch's global generator.
                kept = torch.rand(x.shape, generator=self._generator) >= dropout
                x = x * kept / (1 - dropout)
        scores: Tensor = self._layers[-1](x)
        return scores
