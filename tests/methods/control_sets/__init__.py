"""Tests of ax_costaware.methods.control_sets."""
