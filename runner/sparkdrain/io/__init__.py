"""Connectors, as a user's pipeline uses them: transforms of Beam, for any runner.

Owns: reading from and writing to systems that Beam for Python has no transform of its own for.
Never: anything of the engine; what is in here runs on other runners too.
Start at: ``sparkdrain.io.kafka``.
"""
