"""Heads: extra parameters of a training that the saved encoder does not keep."""
