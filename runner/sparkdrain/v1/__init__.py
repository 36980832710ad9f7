"""Owns: the messages of `proto/sparkdrain/v1` as Python, made by `make proto`.

Never: is edited. Each `.proto` file says what its messages are for.
"""
