"""Health and reflection: services that must answer whatever callers do."""
