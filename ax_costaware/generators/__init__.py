"""Ax generators, generation nodes and the settings that they share.

Import the modules directly: this package imports nothing, so that reading the settings of a
strategy does not load the generators.
"""
