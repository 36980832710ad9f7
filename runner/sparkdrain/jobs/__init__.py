"""Owns the Job API: a gRPC service that takes pipelines, runs them one thread each, and reports.

Never plans or executes a pipeline itself; that is what the engine behind ``engine.Engine`` does.
Start reading at ``service.JobService``, then ``job.Job``.
"""
