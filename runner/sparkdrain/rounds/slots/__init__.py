"""A slot's side, in its host process: one part of every level, over the life of a job."""
