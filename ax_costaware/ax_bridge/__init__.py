"""Interface to Ax for all methods: experiment to problem, decision to trial.

Private attributes of Ax are used only here; ``tests/ax/test_ax_internals.py`` lists them.
"""
