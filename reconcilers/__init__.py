"""The reconcilers of our kinds."""
