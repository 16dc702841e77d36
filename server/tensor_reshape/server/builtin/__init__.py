"""Health, reflection and channelz: services that must answer whatever callers do."""
