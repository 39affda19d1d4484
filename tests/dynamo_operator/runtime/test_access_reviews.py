import pytest

from dynamo_operator.apiserver import ApiServer
from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.runtime.access_reviews import AccessReviews
from dynamo_operator.runtime.builtin_kinds import ClusterRole, ClusterRoleBinding
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.testing.in_process_transport import InProcessTransport
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.objects import ObjectKey

pytestmark = pytest.mark.virtual_time

TOKENS = {
    "prometheus-token": UserInfo("prometheus", groups=("system:authenticated",)),
    "nosy-token": UserInfo("nosy", groups=("system:authenticated",)),
}
BINDING = ObjectKey("", "scraper")


class Time(VirtualClock):
    seconds = 0.0

    def monotonic(self):
        return self.seconds


class Counting:
    """A transport that counts reviews."""

    def __init__(self, server):
        self.transport = InProcessTransport(server)
        self.asked = []
        self.is_away = False

    async def send(self, request, *, timeout_seconds):
        if request.method == "POST" and request.path.endswith("reviews"):
            self.asked.append(request.path.rpartition("/")[2])
            if self.is_away:
                return HttpResponse(403, {}, b"{}")
        return await self.transport.send(request, timeout_seconds=timeout_seconds)

    def stream(self, request):
        return self.transport.stream(request)

    async def close(self):
        await self.transport.close()


class Guarded:
    """A page of metrics behind reviews."""

    def __init__(self, server):
        self.clock = Time()
        self.transport = Counting(server)
        self.client = Client.over(self.transport)
        reviews = AccessReviews(self.client, clock=self.clock)
        self.handler = reviews.guard(Metrics().answer)

    async def get(self, authorization="", method="GET"):
        headers = {"authorization": authorization} if authorization else {}
        answer = await self.handler(HttpRequest(method, "/metrics", (), headers))
        return answer.status, answer.body.decode()

    async def bind(self):
        rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
        await self.client.create(ClusterRole.new("scraper", rules=[rule]))
        await self.client.create(
            ClusterRoleBinding.new(
                BINDING.name,
                roleRef={
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "scraper",
                },
                subjects=[
                    {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "User",
                        "name": "prometheus",
                    }
                ],
            )
        )


@pytest.fixture
async def page():
    server = ApiServer(static_tokens=TOKENS)
    page = Guarded(server)
    await page.bind()
    yield page
    server.close()


async def test_whoever_may_gets_the_page(page):
    status, body = await page.get("Bearer prometheus-token")

    assert status == 200
    assert "controller_runtime_reconcile_total" in body


@pytest.mark.parametrize("given", ["", "Basic abc", "Bearer", "Bearer ", "Bearer unknown"])
async def test_without_a_token_of_the_cluster_nobody_gets_it(page, given):
    assert await page.get(given) == (401, "a bearer token of the cluster is needed\n")


async def test_a_user_who_may_not_is_told_so(page):
    assert await page.get("Bearer nosy-token") == (403, "nosy may not GET /metrics\n")
    assert (await page.get("Bearer prometheus-token", method="POST"))[0] == 403


async def test_answers_are_remembered_for_a_while(page):
    for _ in range(3):
        await page.get("Bearer prometheus-token")
    assert page.transport.asked == ["tokenreviews", "subjectaccessreviews"]

    page.clock.seconds = 61
    await page.get("Bearer prometheus-token")
    assert page.transport.asked[2:] == ["tokenreviews"]

    await page.client.delete(ClusterRoleBinding, BINDING)
    page.clock.seconds = 299
    assert (await page.get("Bearer prometheus-token"))[0] == 200
    page.clock.seconds = 301
    assert (await page.get("Bearer prometheus-token"))[0] == 403


async def test_a_right_that_is_granted_is_noticed_within_half_a_minute(page):
    await page.client.delete(ClusterRoleBinding, BINDING)
    await page.client.delete(ClusterRole, BINDING)
    assert (await page.get("Bearer prometheus-token"))[0] == 403
    await page.bind()
    assert (await page.get("Bearer prometheus-token"))[0] == 403
    page.clock.seconds = 31
    assert (await page.get("Bearer prometheus-token"))[0] == 200


async def test_an_api_server_that_does_not_say_gives_nothing_away(page):
    page.transport.is_away = True

    status, body = await page.get("Bearer prometheus-token")

    assert (status, body) == (500, "the API server could not be asked\n")


async def test_only_so_many_answers_are_remembered(page):
    for number in range(1100):
        await page.get(f"Bearer guess-{number}")

    assert len(page.transport.asked) == 1100
    await page.get("Bearer guess-1099")
    assert len(page.transport.asked) == 1100
