"""Benchmarks: each against its peers in the same run, as ratios; `make bench` prints tables and
writes JSON.
"""
