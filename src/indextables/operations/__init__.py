"""Upkeep of a table: each verb is plan() -> plan, run(plan) -> report."""
