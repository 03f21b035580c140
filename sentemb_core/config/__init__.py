"""Settings: runs, methods, presets, the evaluation suite, experiments."""
