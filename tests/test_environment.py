"""Files that are made for staging go with the process that made them."""

from __future__ import annotations

import textwrap


def test_nothing_is_left_of_an_environment_without_a_directory(python, tmp_path):
    program = """
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from sparkdrain.environment import default_environment

        there = []
        for _ in range(2):
            environment = default_environment(PipelineOptions(["--save_main_session"]))
            for artifact in environment.artifacts():
                there.append(beam.io.filesystems.FileSystems.exists(path_of(artifact)))
        print(there)
    """
    path_of = """
        from apache_beam.portability.api import beam_runner_api_pb2
        def path_of(artifact):
            payload = beam_runner_api_pb2.ArtifactFilePayload()
            payload.ParseFromString(artifact.type_payload)
            return payload.path
    """
    code = textwrap.dedent(path_of) + textwrap.dedent(program)
    done = python("-c", code, TMPDIR=str(tmp_path))
    assert done.stdout.strip() == "[True, True]", done.stderr
    assert list(tmp_path.glob("sparkdrain*")) == []
