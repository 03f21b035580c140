"""Maps that a finished encoder's vectors go through; fitted on vectors, without a label."""
