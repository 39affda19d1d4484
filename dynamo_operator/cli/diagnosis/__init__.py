"""What may be wrong with an installation, one module for each part of it."""
