"""Tests on a PostgreSQL server, which `make test-postgres` installs and starts."""
