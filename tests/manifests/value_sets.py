"""The value sets that the chart is tried with: every value is set in one of them."""

from __future__ import annotations

from typing import Any

VALUE_SETS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "high availability": {
        "controllerManager": {
            "replicas": 3,
            "podDisruptionBudget": {"minAvailable": 2},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "manager"}},
                }
            ],
        }
    },
    "relays only": {"dgdrV1Beta2": {"enabled": False}},
    "no webhooks": {"webhook": {"enabled": False}, "gpuDiscovery": {"enabled": False}},
    "one namespace": {
        "namespaceRestriction": {"enabled": True},
        "webhook": {"enabled": False},
        "upgradeCRD": False,
        "publisherPolicy": {"enabled": False},
    },
    "several namespaces": {
        "namespaceRestriction": {"enabled": True, "targetNamespaces": ["team-a", "team-b"]},
        "webhook": {
            "caBundle": "LS0tLS1CRUdJTg==",
            "certificateSecret": {"name": "own-certificate", "external": True},
        },
        "gpuDiscovery": {"enabled": True},
        "metrics": {"enabled": True},
    },
    "relays of one namespace": {
        "namespaceRestriction": {"enabled": True, "targetNamespace": "team-a"},
        "dgdrV1Beta2": {"enabled": False},
        "controllerManager": {"leaderElection": {"namespace": "team-a"}},
    },
    "cert-manager": {
        "webhook": {
            "certManager": {
                "enabled": True,
                "certificate": {
                    "duration": "2160h",
                    "renewBefore": "360h",
                    "rootCA": {"duration": "43800h", "renewBefore": "720h"},
                },
            }
        }
    },
    "an issuer of one's own": {
        "webhook": {
            "certManager": {
                "enabled": True,
                "issuerRef": {"kind": "ClusterIssuer", "name": "company"},
            }
        }
    },
    "network policies": {
        "networkPolicy": {
            "enabled": True,
            "apiServer": {"cidrs": ["10.0.0.1/32", "10.0.0.2/32"], "ports": [6443]},
            "runs": {"namespaces": ["team-a", "team-b"]},
        }
    },
    "monitoring": {
        "metrics": {
            "port": 8444,
            "serviceMonitor": {"enabled": True, "labels": {"release": "kps"}, "interval": "15s"},
        }
    },
    "other names": {
        "fullnameOverride": "search",
        "nameOverride": "search-operator",
        "controllerManager": {
            "leaderElection": {"id": "search.example.com", "namespace": "kube-system"},
            "serviceAccount": {"name": "search-identity", "annotations": {"a": "1000750000"}},
        },
        "webhook": {
            "certificateSecret": {"name": "search-certificate"},
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"searches": "yes"}},
        },
    },
    "a Pod of one's own": {
        "imagePullSecrets": [{"name": "registry"}],
        "controllerManager": {
            "manager": {
                "image": {
                    "repository": "registry.example.com:5000/dynamo-operator",
                    "digest": f"sha256:{'a' * 64}",
                    "pullPolicy": "Always",
                },
                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
            },
            "runAsUser": 1000750000,
            "serviceAccount": {"create": False, "name": "existing"},
            "podAnnotations": {"example.com/id": "1000750000"},
            "podLabels": {"team": "search"},
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "tolerations": [{"key": "control-plane", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "system-cluster-critical",
            "podDisruptionBudget": {"enabled": True},
        },
    },
    "a user of the cluster's choice": {
        "controllerManager": {
            "runAsUser": None,
            "manager": {"image": {"tag": "5060547"}},
        },
        "upgradeCRD": False,
    },
    "all settings": {
        "discoveryBackend": "etcd",
        "config": {
            "dgdrDefaultImage": "registry.example.com/dynamo-planner:1.6.0",
            "runtimeImageSource": "registry.example.com/dynamo-planner:1.6.0",
            "dynamoVersion": "1.6.0",
            "runHistoryLimit": 3,
            "runDeadlineSeconds": 86400,
            "fallbackGpusPerNode": 8,
            "imagePullSecrets": ["registry", "other"],
            "discoverImagePullSecrets": True,
            "planner": {
                "envFromSecret": "token",
                "nodeSelector": {"pool": "cpu"},
                "tolerations": [{"key": "cpu", "operator": "Exists"}],
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "8", "memory": "16Gi"}},
                "cachePvc": "models",
            },
            "publisher": {"resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}}},
            "podSecurity": {"runAsUser": 1000750000},
            "poolRelay": {
                "module": "dynamo.kv_dc_relay",
                "healthService": "dynamo.kvrelay.v1.KvEventRelay",
                "runAsUser": None,
                "nodeSelector": {"pool": "relays"},
                "tolerations": [{"operator": "Exists"}],
            },
            "validateEffectiveInput": "warn",
            "leaderElection": {"leaseSeconds": 30, "renewDeadlineSeconds": 20, "retrySeconds": 4},
            "logging": {"level": "debug", "format": "json"},
        },
    },
}
