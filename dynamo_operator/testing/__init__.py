"""What a test of a controller needs: a cluster without a cluster, and virtual time."""
