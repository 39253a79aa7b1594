"""Augmentation of a network, tuned while it is trained: ``python -m demo.feedback``."""
