"""Artifacts named by what they contain, stages that never run twice, and the way back."""
