"""Who gets in: loopback, TLS, certificates of clients, a token."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fake_engine import FakeEngine
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sparkdrain.cli.main import main
from sparkdrain.errors import BadOption
from sparkdrain.jobs.access import Access
from sparkdrain.peers import is_loopback
from sparkdrain.server import server
from sparkdrain.server.security import Security, check_exposure, read_security
from sparkdrain.server.settings import ServerSettings
from sparkdrain.strangers import short_stay
from tests.support.job_client import JobClient

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "0123456789abcdef-secret"


@dataclass
class Pair:
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """An authority, and certificates of a server and of a client that it has signed."""
    home = tmp_path_factory.mktemp("pem")
    now = dt.datetime.now(dt.timezone.utc)

    def name(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def made(text: str, issuer=None):
        key = ec.generate_private_key(ec.SECP256R1())
        signer = issuer or (name(text), key)
        local = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name(text))
            .issuer_name(signer[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
            .add_extension(x509.SubjectAlternativeName(local), False)
            .sign(signer[1], hashes.SHA256())
        )
        pair = Pair(home / f"{text}.pem", home / f"{text}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair, (name(text), key)

    authority, signer = made("authority")
    return {
        "authority": authority,
        "server": made("server", signer)[0],
        "client": made("client", signer)[0],
    }


@pytest.fixture
def token_file(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return str(tmp_path / "token")


def jobs_with(client, access: Access):
    with access.channel(client.server.endpoint) as channel:
        return JobClient(channel).stub.GetJobs(api.GetJobsRequest(), timeout=10)


def code_with(client, access: Access) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        jobs_with(client, access)
    return caught.value.code()


def tls(pairs, **more) -> Security:
    return read_security(str(pairs["server"].certificate), str(pairs["server"].key), **more)


def test_with_tls_a_client_knows_the_server_and_plain_text_gets_nothing(at_server, pairs):
    client = at_server(security=tls(pairs))
    authority = pairs["authority"].certificate.read_bytes()
    assert jobs_with(client, Access(authority)) == api.GetJobsResponse()
    assert code_with(client, Access()) is grpc.StatusCode.UNAVAILABLE


def test_who_says_nothing_to_a_server_with_tls_is_sent_away_in_time(at_server, pairs, monkeypatch):
    """The real limits, only sooner."""

    def sooner(most: int) -> tuple[tuple[str, int], ...]:
        *times, crowd = short_stay(most)
        return *((name, value // 10) for name, value in times), crowd

    monkeypatch.setattr(server, "short_stay", sooner)
    client = at_server(security=tls(pairs))
    host, _, port = client.server.endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as stranger:
        assert stranger.recv(1) == b""
    authority = pairs["authority"].certificate.read_bytes()
    assert jobs_with(client, Access(authority)) == api.GetJobsResponse()


def test_with_mutual_tls_a_client_needs_a_certificate(at_server, pairs):
    authority = pairs["authority"].certificate
    client = at_server(security=tls(pairs, client_authority=str(authority)))
    own = pairs["client"].certificate.read_bytes(), pairs["client"].key.read_bytes()
    assert jobs_with(client, Access(authority.read_bytes(), *own)) == api.GetJobsResponse()
    assert code_with(client, Access(authority.read_bytes())) is grpc.StatusCode.UNAVAILABLE


def test_with_a_token_every_call_needs_it_except_for_probes_of_health(at_server, token_file):
    client = at_server(security=read_security(token=token_file))
    assert jobs_with(client, Access(token=TOKEN)) == api.GetJobsResponse()
    for wrong in (Access(), Access(token=TOKEN + "x"), Access(token="x")):
        assert code_with(client, wrong) is grpc.StatusCode.UNAUTHENTICATED
    for stream in (client.path, client.messages):
        with pytest.raises(grpc.RpcError, match="asks for a token"):
            stream("x")
    health = health_pb2_grpc.HealthStub(client.channel)
    assert health.Check(health_pb2.HealthCheckRequest()).status


def test_the_runner_attaches_with_tls_a_certificate_and_a_token(at_server, pairs, token_file):
    authority = str(pairs["authority"].certificate)
    security = tls(pairs, client_authority=authority, token=token_file)
    engine = FakeEngine()
    client = at_server(engine, security=security)
    with beam.Pipeline(
        options=PipelineOptions(
            [
                "--runner=SparkDrainRunner",
                f"--job_endpoint={client.server.endpoint}",
                f"--job_tls_ca={authority}",
                f"--job_tls_cert={pairs['client'].certificate}",
                f"--job_tls_key={pairs['client'].key}",
                f"--job_token_file={token_file}",
                "--save_main_session",
            ]
        )
    ) as pipeline:
        pipeline | beam.Create([1])
    (call,) = engine.calls
    assert call.artifacts, "no file was staged"


def test_what_a_service_asks_for_needs_a_service(token_file):
    options = PipelineOptions(["--runner=SparkDrainRunner", f"--job_token_file={token_file}"])
    pipeline = beam.Pipeline(options=options)
    pipeline | beam.Create([1])
    with pytest.raises(BadOption, match="--job_token_file has no effect without --job_endpoint"):
        pipeline.run()


def test_the_command_line_lists_jobs_of_a_secured_server(at_server, token_file, capsys):
    client = at_server(security=read_security(token=token_file))
    arguments = ["jobs", "--job_endpoint", client.server.endpoint]
    assert main([*arguments, "--job_token_file", token_file]) == 0
    assert "There are no jobs." in capsys.readouterr().out
    assert main(arguments) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.org", "::"])
def test_another_address_without_security_is_refused_unless_asked_for(host):
    with pytest.raises(BadOption, match="other machines could run code"):
        ServerSettings(host=host)
    check_exposure(host, Security(), is_asked_for=True)
    check_exposure(host, Security(token=TOKEN), is_asked_for=False)
    check_exposure(host, Security(b"x", client_authority=b"y"), is_asked_for=False)
    with pytest.raises(BadOption, match="other machines could run code"):
        check_exposure(host, Security(certificate=b"x"), is_asked_for=False)  # whose client?


def test_loopback_is_open_to_this_machine():
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.1.2.3", "::1"]))
    assert not any(map(is_loopback, ["localhost.example.org", "0.0.0.0", "::"]))
    ServerSettings()


def test_what_is_missing_from_security_is_told_in_a_warning():
    assert list(Security().warnings("localhost")) == []
    only_tls, only_token = Security(certificate=b"x"), Security(token=TOKEN)
    assert "--token-file" in next(iter(only_tls.warnings("0.0.0.0")))
    assert "--tls-cert" in next(iter(only_token.warnings("0.0.0.0")))
    assert list(Security(b"x", b"y", b"z", TOKEN).warnings("0.0.0.0")) == []


def test_options_that_lack_another_are_refused(pairs, tmp_path):
    server, short = pairs["server"], tmp_path / "short"
    short.write_text("abc")
    for given, told in (
        ({"certificate": str(server.certificate)}, "--tls-cert and --tls-key go together"),
        ({"client_authority": str(server.certificate)}, "--tls-client-ca needs TLS"),
        ({"token": str(tmp_path / "none")}, "--token-file=.* cannot be read"),
        ({"token": str(short)}, "the first line is no good token"),
    ):
        with pytest.raises(BadOption, match=told):
            read_security(**given)


def test_no_secret_is_shown(pairs, token_file):
    security = tls(pairs, token=token_file)
    shown = repr(ServerSettings(security=security)) + repr(Access(b"", b"", b"key-1", TOKEN))
    assert TOKEN not in shown
    assert "PRIVATE KEY" not in shown
    assert "key-1" not in shown
    assert TOKEN not in str(BadOption(f"it was {TOKEN}"))
