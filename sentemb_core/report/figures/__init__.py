"""The pictures of a run's report: one function a figure, and one that says what it is of."""
