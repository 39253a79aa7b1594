"""The costly-feedback method without Ax: a loop around a process that is looked at now and then."""
