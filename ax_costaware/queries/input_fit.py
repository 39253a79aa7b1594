"""Whether inputs still follow the laws that are assumed of them, and are as independent."""
