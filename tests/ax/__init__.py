"""Runs of whole experiments on Ax."""
