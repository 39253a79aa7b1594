"""Ax, met once for all methods: an experiment becomes a problem, and a decision a trial.

This is the only place where private attributes of Ax are touched; ``tests/ax/test_ax_internals.py``
lists them.
"""
