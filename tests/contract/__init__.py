"""The contract of every method, see ``ax_costaware.testing``."""
