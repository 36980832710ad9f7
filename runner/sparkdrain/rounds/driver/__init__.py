"""The driver's side: what it knows of a job, what it decides, and its rounds on Spark."""
