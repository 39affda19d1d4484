import aiohttp
import pytest
import structlog

from dynamo_operator.runtime.health import HealthEndpoint, UnhealthyError
from dynamo_operator.runtime.http_server import HttpServer


class Check:
    def __init__(self):
        self.problem = None

    async def __call__(self):
        if self.problem:
            raise RuntimeError(self.problem)


class Probe:
    def __init__(self):
        self.check = Check()
        self.server = HttpServer("127.0.0.1:0")
        self.endpoint = HealthEndpoint("/readyz")
        self.endpoint.add("informers", self.check)
        self.endpoint.mount(self.server)

    async def __call__(self, path):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.server.port}{path}") as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def probe():
    probe = Probe()
    async with probe.server:
        yield probe


async def test_all_checks_passing_is_ok(probe):
    assert await probe("/readyz") == (200, "ok")
    assert await probe("/readyz?verbose") == (
        200,
        "[+]ping ok\n[+]informers ok\nreadyz check passed\n",
    )


async def test_a_failing_check_is_named_and_its_reason_withheld_but_logged_once(probe):
    probe.check.problem = "secret reason"

    with structlog.testing.capture_logs() as logs:
        answers = [await probe("/readyz") for _ in range(2)]

    expected = "[+]ping ok\n[-]informers failed: reason withheld\nreadyz check failed\n"
    assert answers == [(500, expected)] * 2
    assert [(line["check"], line["error"]) for line in logs] == [("informers", "secret reason")]


async def test_a_reason_that_is_meant_for_everybody_is_shown_on_one_line(probe):
    async def unsynced():
        raise UnhealthyError("widgets:\n403 Forbidden")

    probe.endpoint.add("caches", unsynced)

    status, text = await probe("/readyz")

    assert (status, text.splitlines()[2]) == (500, "[-]caches failed: widgets: 403 Forbidden")
    assert await probe("/readyz/caches") == (
        500,
        "internal server error: widgets: 403 Forbidden\n",
    )


async def test_a_check_can_be_excluded(probe):
    probe.check.problem = "x"

    assert await probe("/readyz?exclude=informers") == (200, "ok")
    _, text = await probe("/readyz?verbose&exclude=informers&exclude=nobody")
    assert "[+]informers excluded: ok" in text
    assert 'warn: some health checks cannot be excluded: no matches for "nobody"' in text


async def test_each_check_has_a_path_of_its_own(probe):
    probe.check.problem = "x"

    assert await probe("/readyz/ping") == (200, "ok")
    assert (await probe("/readyz/informers"))[0] == 500
    assert (await probe("/readyz/nobody"))[0] == 404


@pytest.mark.parametrize("name", ["ping", "", "a/b"])
def test_a_check_needs_a_new_plain_name(name):
    with pytest.raises(ValueError, match="must be a new name"):
        HealthEndpoint("/healthz").add(name, Check())
