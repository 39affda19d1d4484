"""Pods, and what makes Pods, in namespaces that hold them to a Pod Security level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynamo_operator.runtime.builtin_kinds import Job, Namespace, Pod
from informers.objects import ResourceType
from tests.conformance.requests import JSON_PATCH, MERGE, Body, Json
from tests.conformance.steps import About, Step, cases, patch, post

PODS = Pod.resource_type
NAMESPACES = Namespace.resource_type
PREFIX = "pod-security.kubernetes.io/"
SAFE: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
OTHER_SOURCES: dict[str, Json] = {
    "awsElasticBlockStore": {"volumeID": "v"},
    "azureDisk": {"diskName": "d", "diskURI": "https://d"},
    "azureFile": {"secretName": "s", "shareName": "s"},
    "cephfs": {"monitors": ["m"]},
    "cinder": {"volumeID": "v"},
    "fc": {"targetWWNs": ["w"], "lun": 1},
    "flexVolume": {"driver": "lab/driver"},
    "flocker": {"datasetName": "d"},
    "gcePersistentDisk": {"pdName": "p"},
    "glusterfs": {"endpoints": "e", "path": "p"},
    "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2020-01.lab.example:a", "lun": 0},
    "nfs": {"server": "s", "path": "/p"},
    "portworxVolume": {"volumeID": "v"},
    "quobyte": {"registry": "r:1", "volume": "v"},
    "rbd": {"monitors": ["m"], "image": "i"},
    "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}},
    "storageos": {"volumeName": "v"},
    "vsphereVolume": {"volumePath": "p"},
}
ALLOWED_SOURCES: dict[str, Json] = {
    "configMap": {"name": "c"},
    "csi": {"driver": "lab.example"},
    "downwardAPI": {},
    "emptyDir": {},
    "image": {"reference": "r"},
    "persistentVolumeClaim": {"claimName": "c"},
    "projected": {"sources": []},
    "secret": {"secretName": "s"},
}


def container(name: str = "main", *, unsafe: bool = False, **fields: Any) -> Json:
    """A container that every level admits, but for what `fields` change."""
    context: Json = {} if unsafe else {"securityContext": SAFE}
    return {"name": name, "image": "image:1", **context, **fields}


def within(name: str = "main", **changes: Any) -> Json:
    """A container with changes of its security context; None takes away."""
    context = {key: value for key, value in {**SAFE, **changes}.items() if value is not None}
    return container(name, securityContext=context)


def pod(*containers: Json, annotations: Json | None = None, **spec: Any) -> Json:
    """A Pod with a safe container, unless others are given."""
    metadata: Json = {"metadata": {"annotations": annotations}} if annotations else {}
    return {**metadata, "spec": {"containers": list(containers) or [container()], **spec}}


def pods() -> Iterator[tuple[str, Json]]:
    """Pods that differ in what a level may forbid."""
    yield "a safe one", pod()
    yield "a plain one", pod(container(unsafe=True))
    yield "two plain ones", pod(container("a", unsafe=True), container("b", unsafe=True))
    yield from _host_access()
    yield from _privileges()
    yield from _profiles()
    yield from _users()
    yield from _volumes()
    yield from _everywhere()
    yield from _contradictions()


def _contradictions() -> Iterator[tuple[str, Json]]:
    """Pods that are refused for what they are, before any level is asked."""
    app_armor = "container.apparmor.security.beta.kubernetes.io/main"
    seccomp = "container.seccomp.security.alpha.kubernetes.io/main"
    yield "contradiction: unmasked /proc with host users", pod(within(procMount="Unmasked"))
    yield "contradiction: no such mask", pod(within(procMount="None"))
    yield (
        "contradiction: another host port on the host's network",
        pod(container(ports=[{"containerPort": 80, "hostPort": 81}]), hostNetwork=True),
    )
    sysctl = {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}
    yield (
        "contradiction: a sysctl of the host's network",
        pod(hostNetwork=True, securityContext=sysctl),
    )
    yield "contradiction: no local seccomp", pod(within(seccompProfile={"type": "Localhost"}))
    yield "contradiction: no such seccomp", pod(within(seccompProfile={"type": "None"}))
    yield "contradiction: no local AppArmor", pod(within(appArmorProfile={"type": "Localhost"}))
    yield "contradiction: no kind of AppArmor", pod(within(appArmorProfile={}))
    yield "contradiction: another seccomp annotation", pod(annotations={seccomp: "unconfined"})
    yield "contradiction: no such seccomp annotation", pod(annotations={seccomp: "strict"})
    runtime = {"type": "RuntimeDefault"}
    yield (
        "contradiction: another AppArmor annotation",
        pod(within(appArmorProfile=runtime), annotations={app_armor: "localhost/p"}),
    )
    yield "contradiction: no such AppArmor annotation", pod(annotations={app_armor: "strict"})
    yield (
        "contradiction: an AppArmor annotation of no container",
        pod(annotations={f"{app_armor}s": "runtime/default"}),
    )
    yield (
        "an AppArmor annotation of the Pod's profile",
        pod(annotations={app_armor: "unconfined"}, securityContext={"appArmorProfile": runtime}),
    )


def _host_access() -> Iterator[tuple[str, Json]]:
    port = {"containerPort": 80}
    yield "the host's network", pod(hostNetwork=True)
    yield "the host's network with a port", pod(container(ports=[port]), hostNetwork=True)
    yield "the host's namespaces", pod(hostNetwork=True, hostPID=True, hostIPC=True)
    yield "a host port", pod(container(ports=[{**port, "hostPort": 8080}]))
    yield (
        "host ports of two containers",
        pod(
            container("a", ports=[{**port, "hostPort": 9}, {"containerPort": 81, "hostPort": 10}]),
            container("b", ports=[{"containerPort": 82, "hostPort": 9000}]),
        ),
    )
    yield "a port", pod(container(ports=[port]))
    probe = {"httpGet": {"port": 80, "host": "example.com"}}
    yield "a probe of another host", pod(container(livenessProbe=probe))
    yield (
        "probes and hooks of other hosts",
        pod(
            container("b", readinessProbe={"tcpSocket": {"port": 80, "host": "b.example"}}),
            container("a", startupProbe=probe, lifecycle={"postStart": probe, "preStop": probe}),
        ),
    )
    yield "a probe", pod(container(livenessProbe={"httpGet": {"port": 80}}))


def _privileges() -> Iterator[tuple[str, Json]]:
    yield "privileged", pod(within(privileged=True, allowPrivilegeEscalation=None))
    yield "not privileged", pod(within(privileged=False))
    yield "escalation", pod(within(allowPrivilegeEscalation=True))
    yield "escalation left open", pod(within(allowPrivilegeEscalation=None))
    yield "no capabilities dropped", pod(within(capabilities=None))
    yield "some capabilities dropped", pod(within(capabilities={"drop": ["KILL"]}))
    yield "all capabilities dropped, in lower case", pod(within(capabilities={"drop": ["all"]}))
    for names in (["NET_BIND_SERVICE"], ["CHOWN"], ["SYS_ADMIN"], ["NET_RAW", "CHOWN", "BPF"]):
        added = {"drop": ["ALL"], "add": names}
        yield f"capabilities {' '.join(names)}", pod(within(capabilities=added))
    yield (
        "capabilities of two containers",
        pod(within("a", capabilities={"add": ["NET_RAW"]}), within("b", capabilities={})),
    )
    yield "unmasked /proc", pod(within(procMount="Unmasked"), hostUsers=False)
    yield "masked /proc", pod(within(procMount="Default"))
    sysctls = ("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_notsent_lowat")
    for name in (*sysctls, "kernel.msgmax"):
        yield f"sysctl {name}", pod(securityContext={"sysctls": [{"name": name, "value": "1"}]})
    several = [{"name": name, "value": "1"} for name in ("vm.swappiness", "kernel.sem")]
    yield "several sysctls", pod(securityContext={"sysctls": several})


def _profiles() -> Iterator[tuple[str, Json]]:
    for kind in ("Unconfined", "RuntimeDefault", "Localhost"):
        local = {"localhostProfile": "p"} if kind == "Localhost" else {}
        profile = {"type": kind, **local}
        yield f"seccomp {kind}", pod(within(seccompProfile=profile))
        yield f"seccomp {kind} of the Pod", pod(securityContext={"seccompProfile": profile})
        open_container = within(seccompProfile=None)
        yield (
            f"seccomp {kind} of the Pod alone",
            pod(open_container, securityContext={"seccompProfile": profile}),
        )
        yield f"AppArmor {kind}", pod(within(appArmorProfile=profile))
        yield f"AppArmor {kind} of the Pod", pod(securityContext={"appArmorProfile": profile})
    yield "no seccomp", pod(within(seccompProfile=None))
    unconfined = {"type": "Unconfined"}
    yield (
        "seccomp and AppArmor Unconfined of Pod and containers",
        pod(
            within("a", seccompProfile=unconfined, appArmorProfile=unconfined),
            within("b", seccompProfile=unconfined, appArmorProfile=unconfined),
            securityContext={"seccompProfile": unconfined, "appArmorProfile": unconfined},
        ),
    )
    for options in (
        {"type": "container_t"},
        {"type": "container_engine_t"},
        {"type": "spc_t"},
        {"level": "s0:c123,c456"},
        {"user": "u"},
        {"role": "r"},
        {"user": "u", "role": "r", "type": "t"},
    ):
        told = " ".join(options.values())
        yield f"SELinux {told}", pod(within(seLinuxOptions=options))
        yield f"SELinux {told} of the Pod", pod(securityContext={"seLinuxOptions": options})


def _users() -> Iterator[tuple[str, Json]]:
    open_container = within(runAsNonRoot=None)
    yield "maybe root", pod(open_container)
    yield "root allowed", pod(within(runAsNonRoot=False))
    yield "root allowed by the Pod", pod(securityContext={"runAsNonRoot": False})
    yield "no root by the Pod", pod(open_container, securityContext={"runAsNonRoot": True})
    yield (
        "one root against the Pod",
        pod(within(runAsNonRoot=False), securityContext={"runAsNonRoot": True}),
    )
    yield "user 0", pod(within(runAsUser=0, runAsNonRoot=None))
    yield "user 0 of the Pod", pod(securityContext={"runAsUser": 0})
    yield (
        "user 0 of both",
        pod(within("a", runAsUser=0), within("b", runAsUser=0), securityContext={"runAsUser": 0}),
    )
    yield "user 1000", pod(within(runAsUser=1000))
    yield "user 0 in a user namespace", pod(within(runAsUser=0, runAsNonRoot=None), hostUsers=False)
    yield "Windows", pod(container(unsafe=True), os={"name": "windows"})
    windows = {"windowsOptions": {"hostProcess": True}}
    yield (
        "a process of a Windows host",
        pod(
            container(securityContext={"runAsNonRoot": True, **windows}),
            os={"name": "windows"},
            hostNetwork=True,
            securityContext=windows,
        ),
    )


def _volumes() -> Iterator[tuple[str, Json]]:
    allowed = [{"name": f"v{n}", k: v} for n, (k, v) in enumerate(ALLOWED_SOURCES.items())]
    yield "every allowed volume", pod(volumes=allowed)
    yield "a volume of no kind", pod(volumes=[{"name": "a"}])
    yield "a directory of the host", pod(volumes=[{"name": "a", "hostPath": {"path": "/"}}])
    yield (
        "directories of the host and others",
        pod(
            volumes=[
                {"name": "a", "hostPath": {"path": "/"}},
                {"name": "b", "emptyDir": {}},
                {"name": "c", "nfs": {"server": "s", "path": "/p"}},
                {"name": "d", "hostPath": {"path": "/etc"}},
            ]
        ),
    )
    for kind, source in OTHER_SOURCES.items():
        yield f"a volume of {kind}", pod(volumes=[{"name": "a", kind: source}])


def _everywhere() -> Iterator[tuple[str, Json]]:
    bad = within("init", privileged=True, allowPrivilegeEscalation=None, capabilities=None)
    yield "a bad init container", pod(initContainers=[bad])
    yield (
        "everything at once",
        pod(
            within("a", privileged=True, allowPrivilegeEscalation=None, runAsUser=0),
            container("b", unsafe=True, ports=[{"containerPort": 1, "hostPort": 1}]),
            hostPID=True,
            initContainers=[bad],
            volumes=[{"name": "a", "hostPath": {"path": "/"}}],
            securityContext={"sysctls": [{"name": "vm.swappiness", "value": "1"}]},
        ),
    )
    annotation = "container.seccomp.security.alpha.kubernetes.io/main"
    yield (
        "a seccomp annotation",
        pod(
            within(seccompProfile=None),
            annotations={
                annotation: "unconfined",
                "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
            },
        ),
    )


def templates() -> Iterator[tuple[ResourceType, str, Json]]:
    """Everything that makes Pods, with a plain container."""
    labels = {"app": "a"}
    plain = container(unsafe=True, ports=[{"containerPort": 80}])
    template = {"metadata": {"labels": labels}, **pod(plain, hostNetwork=True)}
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    selector = {"matchLabels": labels}
    workload = {"spec": {"selector": selector, "template": template}}
    job = {"spec": {"template": once}}
    yield Job.resource_type, "a Job", job
    for kind in ("Deployment", "ReplicaSet", "DaemonSet"):
        yield _apps(kind), f"a {kind}", workload
    yield (
        _apps("StatefulSet"),
        "a StatefulSet",
        {"spec": {**workload["spec"], "serviceName": "a"}},
    )
    yield (
        ResourceType("batch", "v1", "CronJob", "cronjobs", namespaced=True),
        "a CronJob",
        {"spec": {"schedule": "@daily", "jobTemplate": job}},
    )
    yield (
        ResourceType("", "v1", "PodTemplate", "podtemplates", namespaced=True),
        "a PodTemplate",
        {"template": template},
    )
    controllers = ResourceType(
        "", "v1", "ReplicationController", "replicationcontrollers", namespaced=True
    )
    yield controllers, "a ReplicationController", {"spec": {"template": template}}


def _apps(kind: str) -> ResourceType:
    return ResourceType("apps", "v1", kind, f"{kind.lower()}s", namespaced=True)


def pod_security() -> Iterator[tuple[str, About]]:
    """Each Pod at each level, and at the versions that tell them apart."""
    for level in ("baseline", "restricted"):
        for name, body in pods():
            yield f"{level}: {name}", _in({"enforce": level}, PODS, body)
    changing = {name: body for name, body in pods() if _depends_on_version(name)}
    for version in ("v1.0", "v1.7", "v1.18", "v1.22", "v1.26", "v1.30", "v1.34", "v1.36", "v1.99"):
        for name, body in changing.items():
            labels = {"enforce": "restricted", "enforce-version": version}
            yield f"restricted {version}: {name}", _in(labels, PODS, body)
    yield from _policies()
    yield from _changes()
    for resource_type, name, body in templates():
        yield f"restricted: {name}", _in({"enforce": "restricted"}, resource_type, body)
        yield f"warn: {name}", _in({"warn": "baseline"}, resource_type, body)


def _depends_on_version(name: str) -> bool:
    words = ("plain", "sysctl net", "Windows", "user ", "annotation", "proc", "probe", "SELinux co")
    return any(word in name for word in words)


def _policies() -> Iterator[tuple[str, About]]:
    plain, worse = pod(container(unsafe=True)), pod(hostPID=True)
    for name, labels in {
        "privileged": {"enforce": "privileged"},
        "warn alone": {"warn": "restricted"},
        "audit alone": {"audit": "restricted"},
        "warn above enforce": {"enforce": "baseline", "warn": "restricted"},
        "warn below enforce": {"enforce": "restricted", "warn": "privileged"},
        "warn of a version": {"enforce": "baseline", "warn": "restricted", "warn-version": "v1.20"},
        "only a version to warn": {"enforce": "baseline", "warn-version": "v1.20"},
        "only a version": {"enforce-version": "v1.20"},
    }.items():
        yield f"policy: {name}", _in(labels, PODS, plain)
        yield f"policy: {name}, worse", _in(labels, PODS, worse)
    for name, labels in {
        "a level": {"enforce": "strict"},
        "a version": {"enforce": "baseline", "enforce-version": "1.20"},
        "a version with zeros": {"warn": "baseline", "warn-version": "v1.020"},
        "everything": {f: "x" for f in ("enforce", "enforce-version", "audit", "warn-version")},
        "nothing": {"enforce": "restricted", "enforce-version": "latest", "audit": "baseline"},
    }.items():
        body: Json = {"metadata": {"labels": _labels(labels)}}
        yield f"labels: wrong {name}", About(NAMESPACES, [post(body, dryRun="All")])


def _changes() -> Iterator[tuple[str, About]]:
    here = {"enforce": "baseline", "warn": "restricted"}
    made = post(pod())
    debugger = container("debugger", unsafe=True, image="debug:1")
    strategic = "application/strategic-merge-patch+json"

    def debug(*containers: Json) -> Step:
        body = {"spec": {"ephemeralContainers": list(containers)}}
        return patch(body, strategic, subresource="ephemeralcontainers")

    bad = within("debugger", privileged=True, allowPrivilegeEscalation=None)
    for name, steps in {
        "a label": [patch({"metadata": {"labels": {"a": "b"}}})],
        "an image": [
            patch(
                [{"op": "replace", "path": "/spec/containers/0/image", "value": "image:2"}],
                JSON_PATCH,
            )
        ],
        "a container for debugging": [debug(debugger), debug(debugger)],
        "a bad container for debugging": [debug(bad)],
        "a container for debugging, changed": [
            debug(debugger),
            debug({**debugger, "image": "debug:2"}),
        ],
        "a container for debugging, named as another": [debug(container("main"))],
        "a container for debugging, by merge patch": [
            patch(
                {"spec": {"ephemeralContainers": [debugger]}},
                MERGE,
                subresource="ephemeralcontainers",
            ),
            patch({"spec": {"ephemeralContainers": []}}, MERGE, subresource="ephemeralcontainers"),
        ],
        "a container for debugging, by the Pod itself": [
            patch({"spec": {"ephemeralContainers": [debugger]}})
        ],
        "the rest of the Pod, by the containers for debugging": [
            patch(
                {"spec": {"hostPID": True, "ephemeralContainers": [debugger]}},
                MERGE,
                subresource="ephemeralcontainers",
            )
        ],
    }.items():
        case = About(PODS, [made, *steps], labels=tuple(_labels(here).items()))
        yield f"change: {name}", case
    with_debugger = pod(ephemeralContainers=[debugger])
    yield "create: with a container for debugging", _in(here, PODS, with_debugger)


def _in(labels: Json, resource_type: ResourceType, body: Body) -> About:
    return About(
        resource_type,
        [post(body, dryRun="All")],
        labels=tuple(_labels(labels).items()),
    )


def _labels(modes: Json) -> dict[str, str]:
    return {PREFIX + mode: value for mode, value in modes.items()}


CASES = cases(pod_security())
