"""Names under which the package writes its records on Ax's trials and generator runs.

One key holds everything, so that nothing of the user's own metadata can be overwritten.
"""

CONTROL_SET = "control_set"
"""Name of the string choice parameter that says which inputs a trial controls."""

RECORD = "ax_costaware"
"""Key of our record in ``Trial.run_metadata`` and ``GeneratorRun.gen_metadata``."""

LEVEL = "level"
"""Name of the integer parameter that says how fine a cell of a resolution tree is."""
