"""Unmodified clients of other makers, run against a gateway: `python -m conformance --url http://127.0.0.1:8000`."""
