"""Sibling images and the Dynamo version that an image reference tells."""
