from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from dynamo_operator.certificates import CertificateAuthority

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def verifier(authority: CertificateAuthority) -> verification.PolicyBuilder:
    store = verification.Store([x509.load_pem_x509_certificate(authority.pem)])
    return verification.PolicyBuilder().store(store).time(NOW + timedelta(days=1))


def test_a_server_certificate_satisfies_a_strict_verifier():
    authority = CertificateAuthority.create(NOW)

    issued = authority.issue("node", NOW, hosts=["127.0.0.1", "localhost"])

    leaf = x509.load_pem_x509_certificate(issued.certificate)
    chain = verifier(authority).build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])
    assert len(chain) == 2


def test_a_client_certificate_carries_user_and_groups():
    authority = CertificateAuthority.create(NOW)

    issued = authority.issue("jane", NOW, organizations=["devs", "ops"])

    leaf = x509.load_pem_x509_certificate(issued.certificate)
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [n.value for n in names] == ["jane"]
    assert [g.value for g in groups] == ["devs", "ops"]


def test_an_authority_stays_the_same_in_its_directory(tmp_path):
    first = CertificateAuthority.load_or_create(tmp_path, NOW)
    second = CertificateAuthority.load_or_create(tmp_path, NOW)

    assert first.pem == second.pem
    assert (tmp_path / "ca.key").stat().st_mode & 0o077 == 0
