"""Unmodified clients of language models, run against a gateway before `weir-mock`: `python -m conformance.chat`."""
