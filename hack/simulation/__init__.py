"""Random searches against an embedded API server in virtual time, with faults; see hack/soak."""
