"""Owns generated code for chains of simple transforms.

Never changes what a chain does: depth first per element, one element at a time, Beam's step
names in errors and metrics. Start at ``chain``.
"""
