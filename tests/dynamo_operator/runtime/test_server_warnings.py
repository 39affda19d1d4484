from structlog.testing import capture_logs

from dynamo_operator.runtime.server_warnings import ServerWarnings


def test_a_warning_is_logged_once_however_often_it_comes():
    warnings = ServerWarnings()

    with capture_logs() as logs:
        for text in ("v1beta1 is deprecated", "unknown field", "v1beta1 is deprecated"):
            warnings.log(text)

    assert [entry["warning"] for entry in logs] == ["v1beta1 is deprecated", "unknown field"]


def test_what_is_remembered_is_bounded():
    warnings = ServerWarnings()

    with capture_logs() as logs:
        for number in range(2500):
            warnings.log(f"warning {number}")
        warnings.log("warning 0")

    assert len(logs) == 2501
