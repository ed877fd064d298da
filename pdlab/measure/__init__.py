"""Measure: plans, workloads, records and the one analyser that every run goes through."""
