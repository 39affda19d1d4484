"""Bugs of the kinds that other operators had, to be planted one at a time: each has to be found.

A bug replaces one or two functions of the real thing: of our controllers, of the framework, or of
the small Relay operator where neither has the pattern. `source` says who had it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.reconciler import Result
from informers.indexers import BY_OWNER_UID
from informers.rate_limiters import ItemExponential
from informers.watch_session import Outcome, WatchRequest
from informers.work_queue import _PARKED
from tests.simulation.relay import (
    FINALIZER,
    RELAY_LABEL,
    ROLE_LABEL,
    config_of,
    is_owned,
    session_of,
)

Mutant = Callable[[Any], Any]
"""Gets a function, class or value of the real thing, and returns the one with the bug."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A bug.

    Args:
        name: what goes wrong.
        source: who had it.
        scenario: in which it shows.
        found_by: where it shows: class of faults, verb and resource of the call that they meet, as
            shell patterns; empty where no fault is needed.
        mutants: what is replaced, as `module:attribute.attribute`.
    """

    name: str
    source: str
    scenario: str
    found_by: str
    mutants: Mapping[str, Mutant]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug for the length of the block."""
        with ExitStack() as stack:
            for target, mutant in self.mutants.items():
                module, _, path = target.partition(":")
                owner: Any = import_module(module)
                *parents, name = path.split(".")
                for parent in parents:
                    owner = getattr(owner, parent)
                stack.enter_context(patch.object(owner, name, mutant(getattr(owner, name))))
            yield


def instead(value: Any) -> Mutant:
    """Put a value in the place of whatever is there."""
    return lambda _: value


async def _always(*_: object, **__: object) -> bool:
    return True


def _forgetful(*_: object) -> None:
    pass


# Our own controllers


def _blind_write_status(original: Any) -> Any:
    async def write_status(client: Any, obj: Any, status: Any) -> Any:
        return await client.apply_status(obj, status)

    return write_status


def _job_of_generated_name(original: Any) -> Any:
    def render_job(*arguments: Any) -> Any:
        job = original(*arguments)
        job.metadata.generate_name, job.metadata.name = f"{job.metadata.name[:40]}-", ""
        return job

    return render_job


async def _cached_only(self: Any, run: Any) -> Any:
    return await self._cached(run)


def _job_without_finalizer(original: Any) -> Any:
    def render_job(*arguments: Any) -> Any:
        job = original(*arguments)
        job.metadata.finalizers = []
        return job

    return render_job


async def _not_recorded(self: Any, reason: Any, message: str) -> None:
    pass


class _NeverAgain(Result):
    """Takes a conflict for the end of the matter."""

    @classmethod
    def backoff(cls, reason: str, **_: Any) -> Any:
        return Result.done()


def _early_success(original: Any) -> Any:
    def job_condition(job: Any, kind: str) -> Any:
        return original(job, kind) or (
            original(job, "SuccessCriteriaMet") if kind == "Complete" else None
        )

    return job_condition


def _trusting_create_job(original: Any) -> Any:
    async def create_job(self: Any, run: Any, execution: Any) -> Any:
        live = self._live
        self._live = _Believing(live, run)
        try:
            return await original(self, run, execution)
        finally:
            self._live = live

    return create_job


class _Believing:
    """A reader that gives back what somebody has already."""

    def __init__(self, reader: Any, known: Any) -> None:
        self._reader = reader
        self._known = known

    async def find(self, kind: Any, key: Any) -> Any:
        if kind is type(self._known):
            return self._known
        return await self._reader.find(kind, key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


SEARCH_BUGS = (
    PlantedBug(
        "a status is written over whatever version is there",
        "rabbitmq/cluster-operator#782; Sieve's intermediate states",
        "supersede",
        "late apply *",
        {
            "reconcilers.run.status_writer:write_status": _blind_write_status,
            "reconcilers.request.reconciler:write_status": _blind_write_status,
        },
    ),
    PlantedBug(
        "deletions do not say which instance they mean",
        "instaclustr/cassandra-operator#402",
        "supersede",
        "",
        {
            "dynamo_operator.runtime.client.writer:delete_options": lambda original: (
                lambda uid=None, *rest, **options: original(None, *rest, **options)
            )
        },
    ),
    PlantedBug(
        "the Job has a generated name, and the cache says whether there is one",
        "scylladb/scylla-operator#2492; ray-project/kuberay#715",
        "search",
        "restart create jobs",
        {
            "reconcilers.run.job_control:render_job": _job_of_generated_name,
            "reconcilers.run.job_control:JobControl._confirmed": instead(_cached_only),
            "reconcilers.run.job_control:_is_the_one": instead(lambda run, job: True),
        },
    ),
    PlantedBug(
        "a Job that nobody recorded may be gone when the operator comes back",
        "openstack-k8s-operators/nova-operator#110",
        "search",
        "child create jobs",
        {"reconcilers.run.job_control:render_job": _job_without_finalizer},
    ),
    PlantedBug(
        "why a Run ends is recorded only after its Job is gone",
        "pravega/zookeeper-operator#314; Sieve's intermediate states",
        "supersede",
        "",
        {"reconcilers.run.status_writer:StatusWriter.ending": instead(_not_recorded)},
    ),
    PlantedBug(
        "a terminal phase is judged anew",
        "kubernetes/kubernetes#129795; product rule that terminal phases absorb",
        "search",
        "child create jobs",
        {
            "dynamo_operator.api.v1beta2:DynamoGraphDeploymentRun.is_terminal": instead(
                property(lambda self: False)
            )
        },
    ),
    PlantedBug(
        "a conflict ends the matter",
        "crossplane/crossplane-runtime#279; missing requeue",
        "search",
        "conflict apply *",
        {
            "reconcilers.run.reconciler:Result": instead(_NeverAgain),
            "reconcilers.request.reconciler:Result": instead(_NeverAgain),
        },
    ),
    PlantedBug(
        "success is told while Pods still run",
        "Job API: SuccessCriteriaMet is not terminal (KEP-3998)",
        "search",
        "",
        {"reconcilers.run.outcome:job_condition": _early_success},
    ),
    PlantedBug(
        "a Job is made for a Run as the cache has it",
        "instaclustr/cassandra-operator#407",
        "search",
        "owner create roles",
        {"reconcilers.run.job_control:JobControl._create": _trusting_create_job},
    ),
    PlantedBug(
        "a new Run does not wait for the old one's end",
        "kubernetes-sigs/cluster-api#13649; a second one before the first has ended",
        "supersede",
        "",
        {"reconcilers.request.reconciler:unfinished_before": instead(lambda *_: None)},
    ),
    PlantedBug(
        "a Job is the Run's by its label",
        "instaclustr/cassandra-operator#402; adoption by label",
        "strangers",
        "",
        {
            "reconcilers.run.job_control:is_owned_by": instead(
                lambda obj, run: obj.labels.get(RUN_UID_LABEL) == run.uid
            )
        },
    ),
)


# The framework


def _impatient(original: Any) -> Any:
    def delay(self: Any, method: str, error: Any, attempt: int) -> Any:
        found = original(self, method, error, attempt)
        return None if found is None else 0.25

    return delay


def _eager(original: Any) -> Any:
    def delay(self: Any, method: str, error: Any, attempt: int) -> Any:
        found = original(self, method, error, attempt)
        if found is None and attempt < 3 and not hasattr(error, "code"):
            return 0.25
        return found

    return delay


def _classified_by_status_only(original: Any) -> Any:
    def classify(self: Any, error: Any) -> Any:
        found = original(self, error)
        return Outcome.LOST if found is Outcome.EXPIRED and self._opened else found

    return classify


def _replace_without_deletes(original: Any) -> Any:
    def replace(self: Any, objects: Any, resource_version: str) -> Any:
        listed = list(objects)
        keys = {obj.key for obj in listed}
        kept = [obj for key, obj in self._contents.objects.items() if key not in keys]
        return original(self, [*listed, *kept], resource_version)

    return replace


def _watch_from_now(original: Any) -> Any:
    def next_request(self: Any, now: float) -> Any:
        request = original(self, now)
        if isinstance(request, WatchRequest) and not request.send_initial_events:
            return WatchRequest(_Latest.version(self), request.timeout_seconds)
        return request

    return next_request


class _Latest:
    """Resumes a watch some versions later than where it ended."""

    @staticmethod
    def version(session: Any) -> str:
        return str(int(session._version or 0) + 1)


def _done_without_parked(original: Any) -> Any:
    def done(self: Any, key: Any) -> None:
        entry = self._pending.get(key)
        if entry is not None and key in self._processing and entry.state is _PARKED:
            del self._pending[key]
        original(self, key)

    return done


def _swallows_cancellation(original: Any) -> Any:
    async def reconcile(self: Any, key: Any) -> Any:
        await self._before_reconcile(key)
        working = asyncio.ensure_future(self._reconciler.reconcile(key))
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                continue
        error = working.exception()
        return (error if error is not None else working.result()), 0.0

    return reconcile


def _dropped_on_error(original: Any) -> Any:
    def put_back(self: Any, item: Any, result: Any, **options: Any) -> None:
        if options and result.backoff_reason is not None and options["backoff"][0] == "retry":
            return
        original(self, item, result, **options)

    return put_back


def _session_of_generated_name(*, looks_it_up: bool) -> Mutant:
    async def session(self: Any, relay: Any) -> Any:
        found = await self.reader.by_index(ConfigMap, BY_OWNER_UID, relay.uid)
        if looks_it_up:
            found += await self.live.list(ConfigMap, namespace=relay.key.namespace)
        for each in found:
            if each.labels.get(ROLE_LABEL) == "session" and is_owned(each, relay):
                return each.key.name
        new = session_of(relay)
        new.metadata.generate_name, new.metadata.name = "session-", ""
        return (await self.client.create(new, owner=relay)).key.name

    return instead(session)


FRAMEWORK_BUGS = (
    PlantedBug(
        "reads do not wait for own writes",
        "kubernetes/kubernetes#129795; KEP-5647",
        "relay",
        "lag create configmaps",
        {
            "dynamo_operator.runtime.own_writes:OwnWrites.wrote": instead(_forgetful),
            "dynamo_operator.runtime.own_writes:OwnWrites.deleted": instead(_forgetful),
            "dynamo_operator.runtime.own_writes:OwnWrites.doubted": instead(_forgetful),
            "tests.simulation.relay:RelayReconciler.session": _session_of_generated_name(
                looks_it_up=False
            ),
        },
    ),
    PlantedBug(
        "Retry-After is not heeded",
        "Kubernetes API: 429 with Retry-After",
        "relay",
        "refusal * *",
        {"dynamo_operator.runtime.client.rest:RestClient._delay_before_retry": _impatient},
    ),
    PlantedBug(
        "a create whose answer was lost is sent again",
        "crossplane/crossplane-runtime#283; retry of what is not idempotent",
        "relay",
        "ambiguous create configmaps",
        {
            "dynamo_operator.runtime.client.rest:RestClient._delay_before_retry": _eager,
            "tests.simulation.relay:RelayReconciler.session": _session_of_generated_name(
                looks_it_up=True
            ),
        },
    ),
    PlantedBug(
        "410 inside a watch is taken for any error",
        "vectordotdev/vector#5885",
        "relay",
        "unobserved watch relays",
        {"informers.watch_session:WatchSession._classify": _classified_by_status_only},
    ),
    PlantedBug(
        "a new list does not take away what is gone",
        "etcd-io/etcd#18089; instaclustr/cassandra-operator#398 (unobserved deletion)",
        "relay",
        "unobserved watch relays",
        {"informers.store:Store.replace": _replace_without_deletes},
    ),
    PlantedBug(
        "a watch goes on one version later than it ended",
        "etcd-io/etcd#17529; a lost event",
        "relay",
        "watch watch *",
        {"informers.watch_session:WatchSession.next_request": _watch_from_now},
    ),
    PlantedBug(
        "a silent watch is never given up",
        "kubernetes-sigs/controller-runtime#3298; half-open connections",
        "relay",
        "watch watch *",
        {"informers.watch_session:WatchSession.read_deadline": instead(lambda self: 1e9)},
    ),
    PlantedBug(
        "a key that is added while it is reconciled is lost",
        "client-go's work queue: dirty and processing sets",
        "relay",
        "slow apply *",
        {"informers.work_queue:WorkQueue.done": _done_without_parked},
    ),
    PlantedBug(
        "a key whose reconcile failed is not tried again",
        "missing requeue; Sieve's intermediate states",
        "relay",
        "refusal create *",
        {"dynamo_operator.runtime.reconcile_loop:ReconcileLoop._put_back": _dropped_on_error},
    ),
    PlantedBug(
        "a reconcile swallows its cancellation",
        "asyncio: CancelledError caught; shutdown that never ends",
        "relay",
        "stop create *",
        {"dynamo_operator.runtime.reconcile_loop:ReconcileLoop._reconcile": _swallows_cancellation},
    ),
    PlantedBug(
        "failures are repeated without a growing delay",
        "controller-runtime: rate limited requeue",
        "relay",
        "outage * *",
        {
            "dynamo_operator.runtime.controller:_default_rate_limiter": instead(
                lambda random: ItemExponential(base_seconds=0.02, cap_seconds=0.02)
            )
        },
    ),
    PlantedBug(
        "the loss of the Lease is only logged, and writes are not fenced",
        "volcano-sh/kthena#1793; client-go leaderelection: no fencing",
        "elected",
        "pause create *",
        {
            "dynamo_operator.runtime.client.rest:RestClient._fenced": instead(
                lambda self, request: request
            ),
            "dynamo_operator.runtime.leader_elector:LeaderElector._lose": instead(
                lambda self, reason: None
            ),
        },
    ),
    PlantedBug(
        "finalizers of others are removed along",
        "finalizers written as an empty list",
        "relay",
        "",
        {
            "tests.simulation.relay:RelayReconciler.let_go": instead(
                lambda self, relay: self.client.patch(
                    type(relay), relay.key, {"metadata": {"finalizers": []}}
                )
            )
        },
    ),
)


# The Relay operator


def _adopts_by_label(original: Any) -> Any:
    async def session(self: Any, relay: Any) -> Any:
        labels = {ROLE_LABEL: "session", RELAY_LABEL: relay.key.name}
        for each in await self.live.list(ConfigMap, namespace=relay.key.namespace, labels=labels):
            adopted = ConfigMap.new(each.key.name, namespace=each.key.namespace, labels=labels)
            await self.client.apply(adopted, owner=relay, force=True)
            return each.key.name
        return await original(self, relay)

    return session


async def _lets_go_first(self: Any, relay: Any) -> None:
    if FINALIZER in relay.metadata.finalizers:
        await self.let_go(relay)
        await self.register(relay, None)


async def _replaces_what_differs(self: Any, relay: Any, found: Any, desired: Any) -> Any:
    wanted, has = desired.to_dict(), found.to_dict()
    if wanted.get("spec") != has.get("spec"):
        return await self.client.apply(desired, owner=relay, uid=found.uid, force=True)
    return found


def _looks_often(original: Any) -> Any:
    async def advance(self: Any, relay: Any) -> Any:
        await original(self, relay)
        return Result.requeue(after=3.0)

    return advance


def _status_before_children(original: Any) -> Any:
    async def advance(self: Any, relay: Any) -> Any:
        if relay.status.observed_generation < relay.generation:
            await self.tell(relay, "True", "Available", "", session=relay.status.session)
            return Result.backoff("the status is new")
        return await original(self, relay)

    return advance


async def _drops_before_use(self: Any, relay: Any) -> Any:
    config = config_of(relay)
    await self.drop_old_configs(relay, config)
    found: Any = await self.child(relay, config)
    return found


async def _cleans_up_by_name(self: Any, relay: Any) -> None:
    listed = await self.live.list(
        ConfigMap, namespace=relay.key.namespace, labels={ROLE_LABEL: "config"}
    )
    for each in listed:
        if each.labels.get(RELAY_LABEL) == relay.key.name:
            await self.client.delete(ConfigMap, each.key, uid=each.uid)
    await self.register(relay, None)
    await self.let_go(relay)


def _without_deletions(original: Any) -> Any:
    def controller(reconciler: Any) -> Any:
        declared = original(reconciler)
        declared.event_filters = (lambda event: type(event).__name__ != "Deleted",)
        return declared

    return controller


def _sleeps_in_the_worker(original: Any) -> Any:
    async def advance(self: Any, relay: Any) -> Any:
        result = await original(self, relay)
        if result.requeue_after is not None:
            await asyncio.sleep(result.requeue_after)
        return result

    return advance


RELAY_BUGS = (
    PlantedBug(
        "a ConfigMap is adopted by its labels",
        "instaclustr/cassandra-operator#402; adoption by label",
        "relay",
        "",
        {"tests.simulation.relay:RelayReconciler.session": _adopts_by_label},
    ),
    PlantedBug(
        "the finalizer is removed before the cleanup",
        "Percona K8SPXC-896; Sieve's intermediate states",
        "relay",
        "crash patch relays",
        {"tests.simulation.relay:RelayReconciler.clean_up": instead(_lets_go_first)},
    ),
    PlantedBug(
        "whole specs are compared, defaults included",
        "k8s: desired never equals stored; hot loop",
        "relay",
        "",
        {
            "tests.simulation.relay:RelayReconciler.keep": instead(_replaces_what_differs),
            "tests.simulation.relay:RelayReconciler.advance": _looks_often,
        },
    ),
    PlantedBug(
        "an immutable child is changed in place",
        "backube/volsync#291; kubernetes-sigs/kueue#12608",
        "relay",
        "",
        {
            "tests.simulation.relay:config_name": instead(
                lambda relay: f"{relay.key.name}-{relay.uid[:8]}-config"
            )
        },
    ),
    PlantedBug(
        "the status speaks of a generation before it is served",
        "datastax/cass-operator K8SSAND-559; observedGeneration too early",
        "relay",
        "",
        {"tests.simulation.relay:RelayReconciler.advance": _status_before_children},
    ),
    PlantedBug(
        "what changed since it was read is not looked at again",
        "pravega/zookeeper-operator#312; missing requeue",
        "relay",
        "conflict apply *",
        {
            "tests.simulation.relay:RelayReconciler.look_again": instead(
                lambda self, error: Result.done()
            )
        },
    ),
    PlantedBug(
        "deletions of children are not looked at",
        "rabbitmq/cluster-operator#758 (unobserved state)",
        "relay",
        "child create *",
        {"tests.simulation.relay:relay_controller": _without_deletions},
    ),
    PlantedBug(
        "names are cut and two owners share a child",
        "cert-manager 1.12: two Certificates, one Secret",
        "relay",
        "",
        {
            "tests.simulation.relay:child_name": instead(
                lambda relay, role: f"{relay.key.name[:4]}-{role}"
            )
        },
    ),
    PlantedBug(
        "the cleanup takes what has the owner's name, not its UID",
        "instaclustr/cassandra-operator#402",
        "relay",
        "",
        {"tests.simulation.relay:RelayReconciler.clean_up": instead(_cleans_up_by_name)},
    ),
    PlantedBug(
        "what is gone is registered again",
        "percona K8SPSMDB-430; stale owner acted on",
        "relay",
        "restart patch relays",
        {"tests.simulation.relay:RelayReconciler.require_living": instead(_always)},
    ),
    PlantedBug(
        "the old configuration goes before the new one is used",
        "konpyutaika/nifikop#49; order of steps",
        "relay",
        "",
        {"tests.simulation.relay:RelayReconciler.config": instead(_drops_before_use)},
    ),
    PlantedBug(
        "the pause between two tries is spent in the worker",
        "sleep in a handler holds up every other key",
        "refused",
        "",
        {"tests.simulation.relay:RelayReconciler.advance": _sleeps_in_the_worker},
    ),
)

PLANTED_BUGS: tuple[PlantedBug, ...] = (*SEARCH_BUGS, *FRAMEWORK_BUGS, *RELAY_BUGS)
