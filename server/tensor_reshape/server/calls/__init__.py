"""How a call of the service lives: admitted, received, worked on, answered, and always ended."""
