"""Deployments: names, schedules, limits, and the service that runs them."""
