"""What holds for every method, tried on many histories: slow, and run by `make test-all`."""
