import base64
import copy
from typing import Any

import pytest

from dynamo_operator.apiserver.builtin_validation import builtin_strategy
from dynamo_operator.apiserver.kinds.pod_defaults import pull_policy, qos_class
from dynamo_operator.apiserver.status import StatusError

RBAC = "rbac.authorization.k8s.io"
CONTAINER = {"name": "c", "image": "registry.lab/a:1"}
POD_SPEC = {"containers": [CONTAINER]}


def new(group, kind, **fields):
    version = f"{group}/v1" if group else "v1"
    metadata = {"name": "x", "namespace": "lab", "uid": "u-1"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def created(group, kind, **fields):
    return builtin_strategy(group, kind).prepare_create(copy.deepcopy(new(group, kind, **fields)))


def create_errors(group, kind, **fields):
    strategy = builtin_strategy(group, kind)
    return [str(e) for e in strategy.validate_create(created(group, kind, **fields))]


def update_errors(old, subresource="", **changes):
    group = old["apiVersion"].rpartition("/")[0]
    strategy = builtin_strategy(group, old["kind"])
    changed = strategy.prepare_update({**copy.deepcopy(old), **changes}, old, subresource)
    return [str(e) for e in strategy.validate_update(changed, old, subresource)]


def pod(**spec):
    return created("", "Pod", spec={**POD_SPEC, **spec})


def job(restart_policy="Never", **spec):
    template = {"spec": {**POD_SPEC, "restartPolicy": restart_policy}}
    return created("batch", "Job", spec={"template": template, **spec})


EXAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    ("", "Pod", {"spec": POD_SPEC}),
    ("", "Node", {"status": {"capacity": {"cpu": 4}}}),
    ("", "Namespace", {}),
    ("", "ConfigMap", {"data": {"a": "b"}}),
    ("", "Secret", {"stringData": {"a": "b"}}),
    ("", "ServiceAccount", {}),
    ("", "Service", {"spec": {"ports": [{"port": 80}]}}),
    (
        "",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("batch", "Job", {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}}),
    (
        "batch",
        "CronJob",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {
                    "spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
                },
            }
        },
    ),
    *(
        (
            "apps",
            kind,
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
                }
            },
        )
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    (RBAC, "Role", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    (RBAC, "ClusterRole", {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}),
    (
        RBAC,
        "RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "lab"}],
        },
    ),
    (
        "coordination.k8s.io",
        "Lease",
        {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    ),
    (
        "discovery.k8s.io",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    ),
    ("policy", "PodDisruptionBudget", {"spec": {"maxUnavailable": "50%", "selector": {}}}),
    ("networking.k8s.io", "NetworkPolicy", {"spec": {"podSelector": {}, "anything": [1]}}),
]


@pytest.mark.parametrize(("group", "kind", "fields"), EXAMPLES, ids=[e[1] for e in EXAMPLES])
def test_a_plain_object_is_accepted_and_writing_it_again_changes_nothing(group, kind, fields):
    strategy = builtin_strategy(group, kind)
    obj = strategy.as_read(created(group, kind, **fields))

    assert strategy.unknown_fields(new(group, kind, **fields)) == []
    assert strategy.validate_create(obj) == []
    assert strategy.prepare_update(obj, obj, "") == obj
    assert strategy.validate_update(obj, obj, "") == []
    assert not strategy.bumps_generation(obj, obj)


class TestPods:
    def test_defaults(self):
        spec = pod()["spec"]

        assert spec["restartPolicy"] == "Always"
        assert spec["terminationGracePeriodSeconds"] == 30
        assert spec["containers"][0] == {
            **CONTAINER,
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        assert pod()["status"] == {"phase": "Pending", "qosClass": "BestEffort"}

    @pytest.mark.parametrize(
        ("image", "policy"),
        [
            ("a", "Always"),
            ("a:latest", "Always"),
            ("a:1", "IfNotPresent"),
            ("registry.lab:5000/a", "Always"),
            ("registry.lab:5000/a:1", "IfNotPresent"),
            ("a@sha256:0", "IfNotPresent"),
        ],
    )
    def test_the_pull_policy_follows_the_tag(self, image, policy):
        assert pull_policy(image) == policy

    @pytest.mark.parametrize(
        ("resources", "qos"),
        [
            ({}, "BestEffort"),
            ({"requests": {"cpu": "1"}}, "Burstable"),
            ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
            ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ],
    )
    def test_the_quality_of_service(self, resources, qos):
        assert qos_class({"containers": [{**CONTAINER, "resources": resources}]}) == qos

    def test_volumes_probes_and_references_are_filled_in(self):
        container = {
            **CONTAINER,
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "readinessProbe": {"httpGet": {"port": 80}},
        }
        sources = [{"serviceAccountToken": {"path": "t"}}]
        spec = pod(
            containers=[container],
            volumes=[
                {"name": "e"},
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "p", "projected": {"sources": sources}},
            ],
        )["spec"]

        assert spec["volumes"][0] == {"name": "e", "emptyDir": {}}
        assert spec["volumes"][1]["configMap"]["defaultMode"] == 420
        assert (
            spec["volumes"][2]["projected"]["sources"][0]["serviceAccountToken"][
                "expirationSeconds"
            ]
            == 3600
        )
        assert spec["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
        assert spec["containers"][0]["readinessProbe"] == {
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        }

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({"containers": []}, "spec.containers: Required value"),
            ({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value"),
            (
                {"containers": [CONTAINER, CONTAINER]},
                'spec.containers[1].name: Duplicate value: "c"',
            ),
            (
                {"restartPolicy": "Sometimes"},
                'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
                '"Never", "OnFailure"',
            ),
            (
                {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
                'spec.containers[0].volumeMounts[0].name: Not found: "v"',
            ),
            (
                {"containers": [{**CONTAINER, "ports": [{"containerPort": 0}]}]},
                "spec.containers[0].ports[0].containerPort: Invalid value: 0: must be between 1 "
                "and 65535, inclusive",
            ),
            (
                {
                    "containers": [
                        {**CONTAINER, "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}
                    ]
                },
                'spec.containers[0].resources.requests: Invalid value: "2": must be less than or '
                "equal to cpu limit of 1",
            ),
            (
                {
                    "containers": [
                        {
                            **CONTAINER,
                            "env": [
                                {
                                    "name": "A",
                                    "value": "1",
                                    "valueFrom": {"fieldRef": {"fieldPath": "x"}},
                                }
                            ],
                        }
                    ]
                },
                'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when '
                "`value` is not empty",
            ),
            (
                {"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]},
                "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
            ),
            *(
                (
                    {"volumes": [{"name": "v", source: {**reference, "items": [item]}}]},
                    f"spec.volumes[0].{source}.items[0].path: Invalid value: "
                    f'"{item["path"]}": {problem}',
                )
                for source, reference in (
                    ("configMap", {"name": "c"}),
                    ("secret", {"secretName": "s"}),
                )
                for item, problem in (
                    ({"key": "k", "path": "/etc/x"}, "must be a relative path"),
                    ({"key": "k", "path": "a/../../x"}, "must not contain '..'"),
                    ({"key": "k", "path": "..data"}, "must not start with '..'"),
                )
            ),
            (
                {
                    "volumes": [
                        {
                            "name": "v",
                            "projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]},
                        }
                    ]
                },
                "spec.volumes[0].projected.sources[0].serviceAccountToken.path: Invalid value: "
                "\"../t\": must not contain '..'",
            ),
            (
                {"activeDeadlineSeconds": 0},
                "spec.activeDeadlineSeconds: Invalid value: 0: must be greater than or equal to 1",
            ),
            (
                {"securityContext": {"runAsUser": -1}},
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and "
                "2147483647, inclusive",
            ),
        ],
    )
    def test_a_wrong_one_is_refused_by_path(self, spec, expected):
        assert create_errors("", "Pod", spec={**POD_SPEC, **spec}) == [expected]

    def test_only_images_deadline_and_tolerations_change(self):
        old = pod()
        image = {**old["spec"]["containers"][0], "image": "registry.lab/a:2"}
        tolerations = [{"key": "k", "operator": "Exists"}]

        assert update_errors(old, spec={**old["spec"], "containers": [image]}) == []
        assert update_errors(old, spec={**old["spec"], "tolerations": tolerations}) == []
        assert update_errors(old, spec={**old["spec"], "activeDeadlineSeconds": 5}) == []
        [text] = update_errors(old, spec={**old["spec"], "nodeName": "n"})
        assert text.startswith("spec: Forbidden: pod updates may not change fields other than")

    def test_a_container_for_debugging_joins_and_nothing_else_changes(self):
        old, part = pod(), "ephemeralcontainers"
        debugger = {"name": "debugger", "image": "busybox"}
        strategy = builtin_strategy("", "Pod")

        def errors(*containers):
            return update_errors(old, part, spec={"ephemeralContainers": list(containers)})

        sent = {**old, "spec": {"hostPID": True, "ephemeralContainers": [debugger]}}
        joined = strategy.prepare_update(sent, old, part)

        assert errors(debugger) == []
        assert {f for f in joined["spec"] if joined["spec"][f] != old["spec"].get(f)} == {
            "ephemeralContainers"
        }
        assert "ephemeralContainers" not in old["spec"]
        path = "spec.ephemeralContainers[0]"
        assert errors({**debugger, "targetContainerName": "x"}) == [
            f'{path}.targetContainerName: Not found: "x"'
        ]
        assert errors({**debugger, "ports": [{"containerPort": 1}]}) == [
            f"{path}.ports: Forbidden: cannot be set for an Ephemeral Container"
        ]

    def test_a_finished_container_does_not_start_again(self):
        old = pod(restartPolicy="Never")
        statuses = [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]
        old["status"] = {**old["status"], "containerStatuses": statuses}
        running = [{"name": "c", "state": {"running": {}}}]

        [text] = update_errors(
            old, "status", status={**old["status"], "containerStatuses": running}
        )

        assert text == (
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to "
            "non-terminated state"
        )

    def test_a_field_of_the_wrong_type_cannot_be_decoded(self):
        with pytest.raises(StatusError, match="cannot be handled as a Pod") as refused:
            created("", "Pod", spec={"containers": [{"name": "c", "image": 1}]})
        assert refused.value.code == 400
        assert "spec.containers[0].image" in refused.value.message

    def test_unknown_fields_are_found_for_strict_validation(self):
        container = {**CONTAINER, "imagePullPolice": "Never"}
        strategy = builtin_strategy("", "Pod")

        found = strategy.unknown_fields(new("", "Pod", spec={"containers": [container], "x": 1}))

        assert found == ["spec.containers[0].imagePullPolice", "spec.x"]

    def test_fields_for_selectors(self):
        strategy = builtin_strategy("", "Pod")

        assert strategy.selectable_fields({})["status.phase"] == ""
        assert strategy.selectable_fields(pod(nodeName="n"))["spec.nodeName"] == "n"


class TestJobs:
    def test_defaults_selector_and_labels(self):
        made = job()
        labels = {
            "batch.kubernetes.io/controller-uid": "u-1",
            "controller-uid": "u-1",
            "batch.kubernetes.io/job-name": "x",
            "job-name": "x",
        }

        spec = made["spec"]
        assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
        assert spec["template"]["metadata"]["labels"] == labels
        assert {k: v for k, v in spec.items() if k not in ("template", "selector")} == {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "manualSelector": False,
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        }

    def test_a_manual_selector_is_kept(self):
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {**POD_SPEC, "restartPolicy": "Never"},
        }
        spec = {
            "manualSelector": True,
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
        }

        assert created("batch", "Job", spec=spec)["spec"]["selector"] == {"matchLabels": {"a": "b"}}
        assert create_errors("batch", "Job", spec=spec) == []

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            (
                {"template": {"spec": POD_SPEC}},
                'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", '
                '"Never"',
            ),
            (
                {"parallelism": -1},
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                {"completionMode": "Indexed", "parallelism": 1},
                "spec.completions: Required value: when completion mode is Indexed",
            ),
            (
                {"selector": {"matchLabels": {"a": "b"}}},
                "`selector` not auto-generated",
            ),
        ],
    )
    def test_a_wrong_one_is_refused(self, spec, expected):
        template = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}

        [text] = create_errors("batch", "Job", spec={"template": template, **spec})

        assert text.endswith(expected)

    def test_template_selector_and_completions_are_immutable(self):
        old = job()
        template = copy.deepcopy(old["spec"]["template"])
        template["spec"]["containers"][0]["image"] = "other"

        for change in (
            {"template": template},
            {"completions": 2},
            {"completionMode": "Indexed"},
        ):
            texts = update_errors(old, spec={**old["spec"], **change})
            assert any(text.endswith("field is immutable") for text in texts), change

    def test_what_queues_and_clean_up_change_may_change(self):
        old = job(suspend=True)
        template = copy.deepcopy(old["spec"]["template"])
        template["spec"]["nodeSelector"] = {"pool": "a"}
        change = {
            "suspend": False,
            "parallelism": 0,
            "ttlSecondsAfterFinished": 5,
            "template": template,
        }

        assert update_errors(old, spec={**old["spec"], **change}) == []

    def test_scheduling_fields_are_fixed_once_started(self):
        old = job(suspend=True)
        old["status"] = {"startTime": "2026-01-01T00:00:00Z"}
        template = copy.deepcopy(old["spec"]["template"])
        template["spec"]["nodeSelector"] = {"pool": "a"}

        assert len(update_errors(old, spec={**old["spec"], "template": template})) == 1

    def condition(self, *types):
        return [{"type": kind, "status": "True"} for kind in types]

    def test_an_end_follows_its_announcement_and_is_final(self):
        running = job()
        done: dict[str, Any] = {
            "conditions": self.condition("SuccessCriteriaMet", "Complete"),
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:00Z",
            "succeeded": 1,
        }

        assert update_errors(running, "status", status=done) == []
        begun = {"startTime": "2026-01-01T00:00:00Z"}
        failed = {**begun, "conditions": self.condition("Failed")}
        [text] = update_errors(running, "status", status=failed)
        assert text.endswith(
            "cannot set Failed=True condition without the FailureTarget=true condition"
        )
        complete = {**running, "status": done}
        [text] = update_errors(
            complete, "status", status={**done, "conditions": self.condition("Complete")}
        )
        assert text.endswith("cannot disable the SuccessCriteriaMet=True condition")

    def test_a_finished_job_has_no_active_pods(self):
        failed = {
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": self.condition("FailureTarget", "Failed"),
            "active": 1,
        }

        assert update_errors(job(), "status", status=failed) == [
            "status.active: Invalid value: 1: active>0 is invalid for finished job"
        ]


class TestConfiguration:
    def test_an_immutable_config_map_stays_as_it_is(self):
        old = created("", "ConfigMap", data={"a": "b"}, immutable=True)

        assert update_errors(old, data={"a": "c"}) == [
            "data: Forbidden: field is immutable when `immutable` is set"
        ]
        assert update_errors(old, immutable=False) == [
            "immutable: Forbidden: field is immutable when `immutable` is set"
        ]
        assert update_errors(old, metadata={**old["metadata"], "labels": {"a": "b"}}) == []

    @pytest.mark.parametrize(
        ("fields", "start"),
        [
            ({"data": {"a b": ""}}, 'data[a b]: Invalid value: "a b": a valid config key'),
            ({"data": {"..": ""}}, "data[..]: Invalid value"),
            (
                {"data": {"a": ""}, "binaryData": {"a": ""}},
                'data[a]: Invalid value: "a": duplicate of',
            ),
            (
                {"data": {"a": "x" * (1024 * 1024 + 1)}},
                "<nil>: Too long: may not be more than 1048576",
            ),
        ],
    )
    def test_a_wrong_config_map_is_refused(self, fields, start):
        [text] = create_errors("", "ConfigMap", **fields)
        assert text.startswith(start)

    def test_string_data_is_written_only(self):
        secret = created("", "Secret", data={"a": "YQ=="}, stringData={"a": "b", "c": "d"})

        assert secret["data"] == {"a": base64.b64encode(b"b").decode(), "c": "ZA=="}
        assert "stringData" not in secret
        assert secret["type"] == "Opaque"

    def test_secret_types_need_their_keys_and_never_change(self):
        docker = {"type": "kubernetes.io/dockerconfigjson"}

        assert create_errors("", "Secret", **docker) == ["data[.dockerconfigjson]: Required value"]
        [text] = create_errors("", "Secret", **docker, data={".dockerconfigjson": "ew=="})
        assert "<secret contents redacted>" in text
        old = created("", "Secret", data={"a": "YQ=="})
        assert update_errors(old, type="other") == [
            'type: Invalid value: "other": field is immutable'
        ]

    def test_data_that_is_not_base64_cannot_be_decoded(self):
        with pytest.raises(StatusError, match="must be of type byte"):
            created("", "Secret", data={"a": "not base64"})


class TestServices:
    def test_an_address_is_given_once_and_kept(self):
        old = created("", "Service", spec={"ports": [{"port": 80}]})
        strategy = builtin_strategy("", "Service")

        again = strategy.prepare_update(new("", "Service", spec={"ports": [{"port": 81}]}), old, "")

        assert old["spec"]["clusterIP"].startswith("10.")
        assert again["spec"]["clusterIP"] == old["spec"]["clusterIP"]
        assert old["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]

    def test_a_headless_service_stays_headless(self):
        spec = created("", "Service", spec={"clusterIP": "None"})["spec"]

        assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])

    def test_the_address_does_not_change(self):
        old = created("", "Service", spec={"ports": [{"port": 80}]})
        changed = {**old["spec"], "clusterIP": "10.96.0.99", "clusterIPs": ["10.96.0.99"]}

        [text] = update_errors(old, spec=changed)

        assert text.endswith("may not change once set")

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({}, "spec.ports: Required value"),
            (
                {"ports": [{"port": 80}, {"port": 81, "name": "b"}]},
                "spec.ports[0].name: Required value",
            ),
            (
                {"ports": [{"port": 70000}]},
                "spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ),
            (
                {"ports": [{"port": 80}], "type": "Magic"},
                'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", '
                '"ExternalName", "LoadBalancer", "NodePort"',
            ),
        ],
    )
    def test_a_wrong_one_is_refused(self, spec, expected):
        assert expected in create_errors("", "Service", spec=spec)


class TestWorkloads:
    def test_the_selector_matches_the_template_and_never_changes(self):
        spec = {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "c"}}, "spec": POD_SPEC},
        }
        [text] = create_errors("apps", "Deployment", spec=spec)
        assert text.endswith("`selector` does not match template `labels`")

        spec["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
        old = created("apps", "Deployment", spec=spec)
        assert old["spec"]["strategy"]["rollingUpdate"] == {
            "maxUnavailable": "25%",
            "maxSurge": "25%",
        }
        template = {"metadata": {"labels": {"a": "c"}}, "spec": POD_SPEC}
        change = {"selector": {"matchLabels": {"a": "c"}}, "template": template}
        [text] = update_errors(old, spec={**old["spec"], **change})
        assert text.endswith("field is immutable")


class TestAccess:
    def test_the_role_of_a_binding_does_not_change(self):
        old = created(RBAC, "RoleBinding", roleRef={"kind": "Role", "name": "r"})

        [text] = update_errors(old, roleRef={**old["roleRef"], "name": "s"})

        assert text.startswith("roleRef: Invalid value: ")
        assert text.endswith("field is immutable")

    @pytest.mark.parametrize(
        ("kind", "fields", "expected"),
        [
            (
                "Role",
                {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
                "rules[0].verbs: Required value",
            ),
            (
                "Role",
                {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to '
                "non-resource URLs",
            ),
            (
                "ClusterRoleBinding",
                {
                    "roleRef": {"kind": "ClusterRole", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "name": "s"}],
                },
                "subjects[0].namespace: Required value",
            ),
            (
                "ClusterRoleBinding",
                {"roleRef": {"kind": "Role", "name": "r"}},
                'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
            ),
        ],
    )
    def test_a_wrong_one_is_refused(self, kind, fields, expected):
        assert create_errors(RBAC, kind, **fields) == [expected]


class TestSystem:
    EVENT = {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "lab.test/controller",
        "reportingInstance": "one",
        "action": "Run",
        "reason": "Started",
        "type": "Normal",
        "note": "n",
        "regarding": {"kind": "Pod", "namespace": "lab", "name": "p"},
    }

    def test_an_event_is_accepted(self):
        assert create_errors("events.k8s.io", "Event", **self.EVENT) == []

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"note": "ä" * 513}, 'message: Invalid value: "": can have at most 1024 characters'),
            ({"reason": ""}, "reason: Required value"),
            (
                {"type": "Bad"},
                'type: Invalid value: "": has invalid value: Bad',
            ),
            (
                {"regarding": {"kind": "Pod"}},
                'involvedObject.namespace: Invalid value: "": does not match event.namespace',
            ),
        ],
    )
    def test_a_wrong_event_is_refused(self, change, expected):
        assert create_errors("events.k8s.io", "Event", **{**self.EVENT, **change}) == [expected]

    def test_a_lease_lasts_longer_than_nothing(self):
        assert create_errors("coordination.k8s.io", "Lease", spec={"leaseDurationSeconds": 0}) == [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
        ]

    def test_a_budget_has_one_bound(self):
        [text] = create_errors(
            "policy", "PodDisruptionBudget", spec={"minAvailable": 1, "maxUnavailable": 1}
        )
        assert text.endswith("minAvailable and maxUnavailable cannot be both set")

    def test_a_namespace_is_active_and_keeps_its_finalizer(self):
        namespace = created("", "Namespace")
        strategy = builtin_strategy("", "Namespace")

        changed = strategy.prepare_update({**namespace, "spec": {}}, namespace, "")

        assert namespace["status"] == {"phase": "Active"}
        assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
        assert changed["spec"] == {"finalizers": ["kubernetes"]}

    def test_a_node_brings_its_status(self):
        node = created("", "Node", status={"capacity": {"cpu": 4, "memory": "1024Ki"}})

        assert node["status"]["allocatable"] == {"cpu": "4", "memory": "1Mi"}

    def test_a_misspelt_keyword_of_a_schema_is_an_unknown_field(self):
        schema = {"type": "object", "properties": {"minimum": {"type": "integer", "minimun": 1}}}
        version = {"name": "v1", "schema": {"openAPIV3Schema": schema}, "servd": True}
        crd = {"spec": {"versions": [version]}}

        found = builtin_strategy("apiextensions.k8s.io", "CustomResourceDefinition").unknown_fields(
            crd
        )

        assert found == [
            "spec.versions[0].servd",
            "spec.versions[0].schema.openAPIV3Schema.properties.minimum.minimun",
        ]

    def test_webhook_configurations_are_filled_in(self):
        hook = {
            "name": "a.lab.test",
            "clientConfig": {"service": {"name": "s", "namespace": "lab"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        group = "admissionregistration.k8s.io"
        made = created(group, "ValidatingWebhookConfiguration", webhooks=[hook])

        assert made["webhooks"][0]["timeoutSeconds"] == 10
        assert made["webhooks"][0]["failurePolicy"] == "Fail"
        assert made["webhooks"][0]["clientConfig"]["service"]["port"] == 443


def test_status_and_spec_are_written_apart():
    old = pod()
    strategy = builtin_strategy("", "Pod")
    wanted = {**old, "spec": {}, "status": {"phase": "Running", "qosClass": "BestEffort"}}

    through_status = strategy.prepare_update(wanted, old, "status")
    plain = strategy.prepare_update({**wanted, "spec": old["spec"]}, old, "")

    assert through_status["spec"] == old["spec"]
    assert through_status["status"]["phase"] == "Running"
    assert plain["status"]["phase"] == "Pending"


def test_the_old_object_is_never_changed():
    for group, kind, fields in EXAMPLES:
        old = created(group, kind, **fields)
        before = copy.deepcopy(old)
        strategy = builtin_strategy(group, kind)

        strategy.prepare_update(new(group, kind, **copy.deepcopy(fields)), old, "")
        strategy.prepare_update(copy.deepcopy(old), old, "status")

        assert old == before
