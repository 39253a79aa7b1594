"""Registering classes of your own with Ax's JSON and SQL stores."""

from ax_costaware.ax_bridge.storage import register_metric, register_runner, register_value_object

__all__ = ["register_metric", "register_runner", "register_value_object"]
