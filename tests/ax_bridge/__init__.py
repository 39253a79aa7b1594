"""Tests of ax_costaware.ax_bridge."""
