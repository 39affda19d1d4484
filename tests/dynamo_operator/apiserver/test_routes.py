import pytest

from dynamo_operator.apiserver.routes import RequestInfo, parse_route


def resource(verb: str, path: str, **fields: str) -> RequestInfo:
    return RequestInfo(verb, path, is_resource=True, version="v1", **fields)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", {"verb": "list", "plural": "pods"}),
        (
            "GET",
            "/api/v1/namespaces/a/pods/p/log",
            {
                "verb": "get",
                "plural": "pods",
                "namespace": "a",
                "name": "p",
                "subresource": "log",
            },
        ),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            {
                "verb": "update",
                "plural": "namespaces",
                "namespace": "a",
                "name": "a",
                "subresource": "finalize",
            },
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a",
            {"verb": "delete", "plural": "namespaces", "namespace": "a", "name": "a"},
        ),
        (
            "DELETE",
            "/apis/batch/v1/namespaces/a/jobs",
            {"verb": "deletecollection", "group": "batch", "plural": "jobs", "namespace": "a"},
        ),
        (
            "PATCH",
            "/apis/batch/v1/namespaces/a/jobs/j/status",
            {
                "verb": "patch",
                "group": "batch",
                "plural": "jobs",
                "namespace": "a",
                "name": "j",
                "subresource": "status",
            },
        ),
    ],
)
def test_a_resource_path_is_taken_apart(method, path, expected):
    verb = expected.pop("verb")

    assert parse_route(method, path, watch=False) == resource(verb, path, **expected)


def test_a_list_with_watch_is_a_watch():
    assert parse_route("GET", "/api/v1/pods", watch=True).verb == "watch"


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/version"])
def test_other_paths_are_no_resources(path):
    assert parse_route("GET", path, watch=False) == RequestInfo("get", path)
