"""Tests of ax_costaware.generators."""
