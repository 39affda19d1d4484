"""GPU discovery."""
