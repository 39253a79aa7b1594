"""Tests of ax_costaware.core."""
