"""Batch jobs: what hands a run to an engine that starts its processes, and asks after them."""
