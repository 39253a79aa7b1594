"""Tests of ax_costaware.methods."""
