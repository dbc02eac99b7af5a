"""The version, which is that of the gateway."""

__version__ = "0.1.0"
