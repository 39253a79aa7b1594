"""Laws of points given queries: what averages are averages over."""
