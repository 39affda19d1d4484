"""Finds what people mean by a name: a Run or a Request's current one, and a Candidate by rank."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.objects import refusal
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError
from informers.objects import ObjectKey, controller_ref

_RUN = DynamoGraphDeploymentRun.resource_type
_REQUEST = DynamoGraphDeploymentRequest.resource_type
_CANDIDATE = DynamoGraphDeploymentCandidate.resource_type


@dataclass(frozen=True, slots=True)
class Search:
    """A Request and its Run, either of which may be missing, but not both."""

    request: DynamoGraphDeploymentRequest | None
    run: DynamoGraphDeploymentRun | None

    @property
    def key(self) -> ObjectKey:
        """Key of the Run, or of the Request that has none yet."""
        found = self.run or self.request
        assert found is not None, "one of them is there"
        return found.key


async def find_search(client: Client, namespace: str | None, name: str) -> Search:
    """Return the Run of that name, or the current Run of the Request of that name.

    Raises:
        CliError: there is neither, or the server refuses to say.
    """
    key = ObjectKey(namespace or client.default_namespace, name)
    try:
        run = await client.find(DynamoGraphDeploymentRun, key)
        if run is not None:
            owner = controller_ref(run)
            request = None
            if owner is not None:
                request = await client.find(
                    DynamoGraphDeploymentRequest, ObjectKey(key.namespace, owner.name)
                )
            return Search(request if request and owner and request.uid == owner.uid else None, run)
        request = await client.find(DynamoGraphDeploymentRequest, key)
        if request is None:
            raise CliError(
                f"{name}: no {_RUN.kind} and no {_REQUEST.kind} of that name is in namespace"
                f" {key.namespace}; `dynamo-operator request get` lists those that are"
            )
        return Search(request, await current_run(client, request))
    except ApiError as error:
        raise CliError(refusal(error, _RUN, name=name)) from error


async def current_run(
    client: Client, request: DynamoGraphDeploymentRequest
) -> DynamoGraphDeploymentRun | None:
    """Return the Run that a Request's status names, if it is there."""
    active = request.status.active_run_ref
    if active is None:
        return None
    return await client.find(
        DynamoGraphDeploymentRun, ObjectKey(request.key.namespace, active.name)
    )


async def find_run(client: Client, namespace: str | None, name: str) -> DynamoGraphDeploymentRun:
    """Return the Run of that name, or the current Run of the Request of that name.

    Raises:
        CliError: there is none.
    """
    search = await find_search(client, namespace, name)
    if search.run is None:
        raise CliError(
            f"{_REQUEST.kind} {name}: has no Run yet;"
            f" `kubectl describe {_REQUEST.kind.lower()} {name}` says why"
        )
    return search.run


async def ranked_candidates(
    client: Client, run: DynamoGraphDeploymentRun
) -> list[DynamoGraphDeploymentCandidate]:
    """Return a Run's Candidates, best first; one that was deleted meanwhile is left out."""
    found = [
        await client.find(
            DynamoGraphDeploymentCandidate, ObjectKey(run.key.namespace, reference.name)
        )
        for reference in run.status.candidate_refs
    ]
    return [each for each in found if each is not None]


async def find_candidate(
    client: Client, namespace: str | None, name: str
) -> DynamoGraphDeploymentCandidate:
    """Return a Candidate by its name, or by `SEARCH/RANK`: a Run's or Request's, 1 the best.

    Raises:
        CliError: there is none.
    """
    search, slash, rank = name.partition("/")
    if not slash:
        key = ObjectKey(namespace or client.default_namespace, name)
        try:
            return await client.get(DynamoGraphDeploymentCandidate, key)
        except ApiError as error:
            raise CliError(refusal(error, _CANDIDATE, name=name)) from error
    if not (rank.isdecimal() and int(rank)):
        raise CliError(f"{name}: must be NAME/RANK, the best has rank 1", exit_code=USAGE)
    run = await find_run(client, namespace, search)
    candidates = await ranked_candidates(client, run)
    if int(rank) > len(candidates):
        raise CliError(f"{name}: {run.key.name} has {len(candidates)} Candidates")
    return candidates[int(rank) - 1]
