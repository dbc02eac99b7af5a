"""The gateway against its own OpenAPI description."""
