"""The environment in which the real AISimulate runs locally."""
