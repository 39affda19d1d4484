"""The main job, end to end: from a Request to ranked candidates, and every way that it can end."""
