"""Names, schedules, limits, and the machine they run on; no logic of the science."""
