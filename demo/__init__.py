"""Control sets on the stack-loss measurements, beside plain Ax: ``python -m demo``."""
