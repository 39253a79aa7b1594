"""Hyperparameters of a classifier at the cost of training it: ``python -m demo.gittins``."""
