"""Tests of ax_costaware.adapter."""
