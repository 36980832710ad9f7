"""Counts ticks in windows of five seconds, for ever. Ctrl-C drains the job."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows


def show(count, window=beam.DoFn.WindowParam):
    print(f"{window.start.to_utc_datetime():%H:%M:%S}  {count} ticks")


with beam.Pipeline(options=PipelineOptions()) as pipeline:
    (
        pipeline
        | PeriodicImpulse(fire_interval=0.01)
        | beam.WindowInto(FixedWindows(5))
        | beam.combiners.Count.Globally().without_defaults()
        | beam.Map(show)
    )
