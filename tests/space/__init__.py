"""Tests of ax_costaware.space."""
