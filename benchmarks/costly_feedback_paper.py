"""What the paper reports: Wang et al. 2020, "Cost-Efficient Online Hyperparameter Optimization".

Per method, and per forgetting rate or shape: average regret with its standard deviation over 50
(table A2) or 100 (table A1) trials, number of measurements with its.
"""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One cell of a table: mean and standard deviation of two numbers."""

    regret: float
    regret_sd: float
    measurements: float
    measurements_sd: float


FORGETTING = (0.003, 0.005, 0.01, 0.03, 0.05)

A2: dict[str, tuple[Figure, ...]] = {
    "R-GP-UCB": (
        Figure(0.352, 0.187, 499, 0),
        Figure(0.371, 0.166, 499, 0),
        Figure(0.425, 0.118, 499, 0),
        Figure(0.516, 0.093, 499, 0),
        Figure(0.581, 0.093, 499, 0),
    ),
    "TV-GP-UCB": (
        Figure(0.094, 0.035, 499, 0),
        Figure(0.126, 0.044, 499, 0),
        Figure(0.184, 0.056, 499, 0),
        Figure(0.305, 0.034, 499, 0),
        Figure(0.392, 0.034, 499, 0),
    ),
    "Ber(0.2)": (
        Figure(0.231, 0.089, 99, 8),
        Figure(0.275, 0.084, 99, 9),
        Figure(0.35, 0.094, 97, 9),
        Figure(0.561, 0.122, 100, 9),
        Figure(0.694, 0.09, 100, 8),
    ),
    "Ber(0.3)": (
        Figure(0.176, 0.093, 147, 9),
        Figure(0.218, 0.104, 150, 12),
        Figure(0.312, 0.089, 144, 10),
        Figure(0.485, 0.089, 150, 10),
        Figure(0.592, 0.096, 153, 10),
    ),
    "Ber(0.4)": (
        Figure(0.147, 0.072, 200, 10),
        Figure(0.186, 0.073, 200, 10),
        Figure(0.275, 0.09, 201, 11),
        Figure(0.428, 0.073, 203, 11),
        Figure(0.522, 0.073, 203, 9),
    ),
    "Ber(0.5)": (
        Figure(0.121, 0.06, 247, 10),
        Figure(0.16, 0.061, 249, 12),
        Figure(0.241, 0.073, 252, 12),
        Figure(0.382, 0.064, 249, 12),
        Figure(0.48, 0.058, 250, 12),
    ),
    "Ber(0.6)": (
        Figure(0.119, 0.055, 296, 9),
        Figure(0.144, 0.041, 300, 11),
        Figure(0.23, 0.078, 298, 11),
        Figure(0.363, 0.045, 298, 11),
        Figure(0.452, 0.045, 298, 12),
    ),
    "Ber(0.7)": (
        Figure(0.112, 0.049, 348, 10),
        Figure(0.151, 0.06, 348, 11),
        Figure(0.209, 0.068, 348, 10),
        Figure(0.335, 0.038, 350, 11),
        Figure(0.429, 0.04, 350, 9),
    ),
    "Ber(0.8)": (
        Figure(0.102, 0.046, 401, 9),
        Figure(0.14, 0.058, 399, 11),
        Figure(0.198, 0.067, 399, 9),
        Figure(0.328, 0.035, 400, 8),
        Figure(0.415, 0.037, 400, 7),
    ),
    "Ber(0.9)": (
        Figure(0.098, 0.048, 450, 7),
        Figure(0.132, 0.051, 449, 7),
        Figure(0.196, 0.066, 448, 7),
        Figure(0.311, 0.036, 448, 6),
        Figure(0.404, 0.035, 449, 7),
    ),
    "kappa 0.6": (
        Figure(0.535, 0.416, 8, 5),
        Figure(0.558, 0.319, 12, 7),
        Figure(0.6, 0.289, 20, 11),
        Figure(0.642, 0.141, 53, 11),
        Figure(0.68, 0.119, 85, 17),
    ),
    "kappa 0.7": (
        Figure(0.41, 0.329, 16, 11),
        Figure(0.435, 0.253, 21, 13),
        Figure(0.442, 0.186, 41, 25),
        Figure(0.504, 0.096, 91, 21),
        Figure(0.533, 0.071, 134, 21),
    ),
    "kappa 0.75": (
        Figure(0.341, 0.249, 22, 17),
        Figure(0.367, 0.199, 34, 20),
        Figure(0.368, 0.176, 62, 27),
        Figure(0.441, 0.077, 117, 25),
        Figure(0.484, 0.074, 167, 30),
    ),
    "kappa 0.8": (
        Figure(0.286, 0.169, 31, 27),
        Figure(0.297, 0.157, 51, 36),
        Figure(0.304, 0.117, 76, 27),
        Figure(0.387, 0.065, 146, 31),
        Figure(0.451, 0.053, 200, 30),
    ),
    "kappa 0.85": (
        Figure(0.226, 0.131, 51, 41),
        Figure(0.248, 0.095, 78, 42),
        Figure(0.266, 0.069, 101, 46),
        Figure(0.356, 0.054, 180, 34),
        Figure(0.416, 0.041, 235, 35),
    ),
    "kappa 0.9": (
        Figure(0.188, 0.089, 82, 73),
        Figure(0.202, 0.08, 101, 63),
        Figure(0.238, 0.07, 140, 48),
        Figure(0.322, 0.045, 233, 37),
        Figure(0.4, 0.036, 291, 30),
    ),
    "kappa 0.95": (
        Figure(0.157, 0.074, 125, 77),
        Figure(0.161, 0.051, 163, 73),
        Figure(0.21, 0.052, 207, 60),
        Figure(0.307, 0.037, 310, 42),
        Figure(0.397, 0.034, 371, 29),
    ),
    "kappa 0.99": (
        Figure(0.112, 0.037, 292, 104),
        Figure(0.128, 0.03, 309, 83),
        Figure(0.176, 0.031, 363, 60),
        Figure(0.295, 0.031, 435, 26),
        Figure(0.386, 0.033, 468, 15),
    ),
    "LCB-UCB": (
        Figure(0.103, 0.034, 386, 79),
        Figure(0.126, 0.031, 414, 50),
        Figure(0.168, 0.033, 442, 41),
        Figure(0.292, 0.031, 482, 11),
        Figure(0.384, 0.031, 492, 7),
    ),
}

A1: dict[str, dict[str, Figure]] = {
    "CE-GP-UCB": {
        "sine": Figure(0.017, 0.009, 52, 7),
        "bumps": Figure(0.038, 0.017, 53, 20),
        "steps": Figure(0.028, 0.002, 52, 5),
    },
    "UCB Ber(0.1)": {
        "sine": Figure(0.084, 0.010, 200, 14),
        "bumps": Figure(0.112, 0.026, 201, 15),
        "steps": Figure(0.172, 0.042, 202, 14),
    },
    "GP-UCB Ber(0.1)": {
        "sine": Figure(0.104, 0.012, 200, 14),
        "bumps": Figure(0.139, 0.025, 200, 14),
        "steps": Figure(0.122, 0.009, 201, 12),
    },
}
