"""Ax adapters and transforms: realised inputs, and ``control_set`` hidden from the model.

Import the modules directly.
"""
