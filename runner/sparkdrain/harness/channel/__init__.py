"""Owns bundles in an SDK harness of Beam's: chains are compiled as in a slot, up to its channel.

Never changes what Beam's harness promises a runner. Start at ``processor``.
"""
