"""What goes wrong around an experiment: killed processes, databases that go away."""
