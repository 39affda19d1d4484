"""This module holds the OpenAPI of Pods and Pod templates."""

from __future__ import annotations

from typing import Final

from dynamo_operator.apiserver.kinds.openapi import (
    ANYTHING,
    BOOLEAN,
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    LOCAL_REFERENCE,
    OBJECT_META,
    QUANTITIES,
    STRING,
    STRINGS,
    TIME,
    TYPED_REFERENCE,
    array,
    atomic,
    kind,
    map_list,
    mapping,
    record,
    set_of,
    with_default,
)

_KEY_SELECTOR: Final = atomic(record(name=STRING, key=STRING, optional=BOOLEAN))
_FIELD_REF: Final = atomic(record(apiVersion=STRING, fieldPath=STRING))
_RESOURCE_FIELD_REF: Final = atomic(record(containerName=STRING, resource=STRING, divisor=ANYTHING))
_ENV: Final = map_list(
    "name",
    record(
        name=STRING,
        value=STRING,
        valueFrom=record(
            fieldRef=_FIELD_REF,
            resourceFieldRef=_RESOURCE_FIELD_REF,
            configMapKeyRef=_KEY_SELECTOR,
            secretKeyRef=_KEY_SELECTOR,
            fileKeyRef=atomic(record(volumeName=STRING, path=STRING, key=STRING, optional=BOOLEAN)),
        ),
    ),
)
_ENV_FROM: Final = array(
    record(
        prefix=STRING,
        configMapRef=record(name=STRING, optional=BOOLEAN),
        secretRef=record(name=STRING, optional=BOOLEAN),
    )
)
_HTTP_HEADERS: Final = array(record(name=STRING, value=STRING))
_HTTP_GET: Final = record(
    path=STRING, port=INT_OR_STRING, host=STRING, scheme=STRING, httpHeaders=_HTTP_HEADERS
)
_EXEC: Final = record(command=array(STRING))
_TCP_SOCKET: Final = record(port=INT_OR_STRING, host=STRING)
_PROBE: Final = record(
    exec=_EXEC,
    httpGet=_HTTP_GET,
    tcpSocket=_TCP_SOCKET,
    grpc=record(port=INT32, service=STRING),
    initialDelaySeconds=INT32,
    timeoutSeconds=INT32,
    periodSeconds=INT32,
    successThreshold=INT32,
    failureThreshold=INT32,
    terminationGracePeriodSeconds=INT64,
)
_HANDLER: Final = record(
    exec=_EXEC, httpGet=_HTTP_GET, tcpSocket=_TCP_SOCKET, sleep=record(seconds=INT64)
)
_LIFECYCLE: Final = record(postStart=_HANDLER, preStop=_HANDLER, stopSignal=STRING)
_SELINUX: Final = record(user=STRING, role=STRING, type=STRING, level=STRING)
_WINDOWS: Final = record(
    gmsaCredentialSpecName=STRING,
    gmsaCredentialSpec=STRING,
    runAsUserName=STRING,
    hostProcess=BOOLEAN,
)
_PROFILE: Final = record(type=STRING, localhostProfile=STRING)
_CONTAINER_SECURITY: Final = record(
    capabilities=record(add=array(STRING), drop=array(STRING)),
    privileged=BOOLEAN,
    seLinuxOptions=_SELINUX,
    windowsOptions=_WINDOWS,
    runAsUser=INT64,
    runAsGroup=INT64,
    runAsNonRoot=BOOLEAN,
    readOnlyRootFilesystem=BOOLEAN,
    allowPrivilegeEscalation=BOOLEAN,
    procMount=STRING,
    seccompProfile=_PROFILE,
    appArmorProfile=_PROFILE,
)
_POD_SECURITY: Final = record(
    seLinuxOptions=_SELINUX,
    windowsOptions=_WINDOWS,
    runAsUser=INT64,
    runAsGroup=INT64,
    runAsNonRoot=BOOLEAN,
    supplementalGroups=array(INT64),
    supplementalGroupsPolicy=STRING,
    fsGroup=INT64,
    fsGroupChangePolicy=STRING,
    sysctls=array(record(name=STRING, value=STRING)),
    seccompProfile=_PROFILE,
    appArmorProfile=_PROFILE,
    seLinuxChangePolicy=STRING,
)
RESOURCES: Final = record(
    limits=QUANTITIES,
    requests=QUANTITIES,
    claims=map_list("name", record(name=STRING, request=STRING), patch=""),
)
_PORT: Final = record(
    name=STRING,
    hostPort=INT32,
    containerPort=INT32,
    protocol=with_default(STRING, "TCP"),
    hostIP=STRING,
)
_VOLUME_MOUNT: Final = record(
    name=STRING,
    readOnly=BOOLEAN,
    recursiveReadOnly=STRING,
    mountPath=STRING,
    subPath=STRING,
    mountPropagation=STRING,
    subPathExpr=STRING,
)
_RESTART_RULE: Final = record(
    action=STRING, exitCodes=record(operator=STRING, values=set_of(INT32))
)
_CONTAINER_FIELDS: Final = {
    "name": STRING,
    "image": STRING,
    "command": array(STRING),
    "args": array(STRING),
    "workingDir": STRING,
    "ports": map_list("containerPort protocol", _PORT),
    "envFrom": _ENV_FROM,
    "env": _ENV,
    "resources": RESOURCES,
    "resizePolicy": array(record(resourceName=STRING, restartPolicy=STRING)),
    "restartPolicy": STRING,
    "restartPolicyRules": array(_RESTART_RULE),
    "volumeMounts": map_list("mountPath", _VOLUME_MOUNT),
    "volumeDevices": map_list("devicePath", record(name=STRING, devicePath=STRING)),
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": _LIFECYCLE,
    "terminationMessagePath": STRING,
    "terminationMessagePolicy": STRING,
    "imagePullPolicy": STRING,
    "securityContext": _CONTAINER_SECURITY,
    "stdin": BOOLEAN,
    "stdinOnce": BOOLEAN,
    "tty": BOOLEAN,
}
_CONTAINERS: Final = map_list("name", record(**_CONTAINER_FIELDS))
_EPHEMERAL: Final = map_list("name", record(**_CONTAINER_FIELDS, targetContainerName=STRING))
_KEY_PATHS: Final = array(record(key=STRING, path=STRING, mode=INT32))
_DOWNWARD_ITEMS: Final = array(
    record(path=STRING, mode=INT32, fieldRef=_FIELD_REF, resourceFieldRef=_RESOURCE_FIELD_REF)
)
_PROJECTION: Final = record(
    secret=record(name=STRING, items=_KEY_PATHS, optional=BOOLEAN),
    configMap=record(name=STRING, items=_KEY_PATHS, optional=BOOLEAN),
    downwardAPI=record(items=_DOWNWARD_ITEMS),
    serviceAccountToken=record(audience=STRING, expirationSeconds=INT64, path=STRING),
    clusterTrustBundle=record(
        name=STRING,
        signerName=STRING,
        labelSelector=LABEL_SELECTOR,
        optional=BOOLEAN,
        path=STRING,
    ),
    podCertificate=FREE_OBJECT,
)
CLAIM_SPEC: Final = record(
    accessModes=array(STRING),
    selector=LABEL_SELECTOR,
    resources=record(limits=QUANTITIES, requests=QUANTITIES),
    volumeName=STRING,
    storageClassName=STRING,
    volumeMode=STRING,
    dataSource=TYPED_REFERENCE,
    dataSourceRef=TYPED_REFERENCE,
    volumeAttributesClassName=STRING,
)
_VOLUME: Final = record(
    name=STRING,
    hostPath=record(path=STRING, type=STRING),
    emptyDir=record(medium=STRING, sizeLimit=ANYTHING),
    secret=record(secretName=STRING, items=_KEY_PATHS, defaultMode=INT32, optional=BOOLEAN),
    configMap=record(name=STRING, items=_KEY_PATHS, defaultMode=INT32, optional=BOOLEAN),
    downwardAPI=record(items=_DOWNWARD_ITEMS, defaultMode=INT32),
    projected=record(sources=array(_PROJECTION), defaultMode=INT32),
    persistentVolumeClaim=record(claimName=STRING, readOnly=BOOLEAN),
    nfs=record(server=STRING, path=STRING, readOnly=BOOLEAN),
    csi=record(
        driver=STRING,
        readOnly=BOOLEAN,
        fsType=STRING,
        volumeAttributes=STRINGS,
        nodePublishSecretRef=LOCAL_REFERENCE,
    ),
    ephemeral=record(volumeClaimTemplate=record(metadata=OBJECT_META, spec=CLAIM_SPEC)),
    image=record(reference=STRING, pullPolicy=STRING),
    **{
        name: FREE_OBJECT
        for name in (
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cephfs",
            "cinder",
            "fc",
            "flexVolume",
            "flocker",
            "gcePersistentDisk",
            "gitRepo",
            "glusterfs",
            "iscsi",
            "photonPersistentDisk",
            "portworxVolume",
            "quobyte",
            "rbd",
            "scaleIO",
            "storageos",
            "vsphereVolume",
        )
    },
)
VOLUMES: Final = map_list("name", _VOLUME, patch="merge,retainKeys")
TOLERATIONS: Final = array(
    record(key=STRING, operator=STRING, value=STRING, effect=STRING, tolerationSeconds=INT64)
)
_NODE_REQUIREMENTS: Final = array(record(key=STRING, operator=STRING, values=array(STRING)))
_NODE_TERM: Final = atomic(
    record(matchExpressions=_NODE_REQUIREMENTS, matchFields=_NODE_REQUIREMENTS)
)
_POD_TERM: Final = record(
    labelSelector=LABEL_SELECTOR,
    namespaces=array(STRING),
    topologyKey=STRING,
    namespaceSelector=LABEL_SELECTOR,
    matchLabelKeys=array(STRING),
    mismatchLabelKeys=array(STRING),
)
_POD_AFFINITY: Final = record(
    requiredDuringSchedulingIgnoredDuringExecution=array(_POD_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=array(
        record(weight=INT32, podAffinityTerm=_POD_TERM)
    ),
)
_AFFINITY: Final = record(
    nodeAffinity=record(
        requiredDuringSchedulingIgnoredDuringExecution=atomic(
            record(nodeSelectorTerms=array(_NODE_TERM))
        ),
        preferredDuringSchedulingIgnoredDuringExecution=array(
            record(weight=INT32, preference=_NODE_TERM)
        ),
    ),
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)
_SPREAD: Final = record(
    maxSkew=INT32,
    topologyKey=STRING,
    whenUnsatisfiable=STRING,
    labelSelector=LABEL_SELECTOR,
    minDomains=INT32,
    nodeAffinityPolicy=STRING,
    nodeTaintsPolicy=STRING,
    matchLabelKeys=array(STRING),
)
_RESOURCE_CLAIM: Final = record(
    name=STRING, resourceClaimName=STRING, resourceClaimTemplateName=STRING
)
POD_SPEC: Final = record(
    volumes=VOLUMES,
    initContainers=_CONTAINERS,
    containers=_CONTAINERS,
    ephemeralContainers=_EPHEMERAL,
    restartPolicy=STRING,
    terminationGracePeriodSeconds=INT64,
    activeDeadlineSeconds=INT64,
    dnsPolicy=STRING,
    nodeSelector=atomic(STRINGS),
    serviceAccountName=STRING,
    serviceAccount=STRING,
    automountServiceAccountToken=BOOLEAN,
    nodeName=STRING,
    hostNetwork=BOOLEAN,
    hostPID=BOOLEAN,
    hostIPC=BOOLEAN,
    shareProcessNamespace=BOOLEAN,
    securityContext=_POD_SECURITY,
    imagePullSecrets=map_list("name", LOCAL_REFERENCE),
    hostname=STRING,
    hostnameOverride=STRING,
    subdomain=STRING,
    affinity=_AFFINITY,
    schedulerName=STRING,
    tolerations=TOLERATIONS,
    hostAliases=map_list("ip", record(ip=STRING, hostnames=array(STRING))),
    priorityClassName=STRING,
    priority=INT32,
    dnsConfig=record(
        nameservers=array(STRING),
        searches=array(STRING),
        options=array(record(name=STRING, value=STRING)),
    ),
    readinessGates=array(record(conditionType=STRING)),
    runtimeClassName=STRING,
    enableServiceLinks=BOOLEAN,
    preemptionPolicy=STRING,
    overhead=QUANTITIES,
    topologySpreadConstraints=map_list("topologyKey whenUnsatisfiable", _SPREAD),
    setHostnameAsFQDN=BOOLEAN,
    os=record(name=STRING),
    hostUsers=BOOLEAN,
    schedulingGates=map_list("name", record(name=STRING)),
    resourceClaims=map_list("name", _RESOURCE_CLAIM, patch="merge,retainKeys"),
    resources=RESOURCES,
    workloadRef=FREE_OBJECT,
)
POD_TEMPLATE: Final = record(metadata=OBJECT_META, spec=POD_SPEC)
_CONTAINER_STATE: Final = record(
    waiting=record(reason=STRING, message=STRING),
    running=record(startedAt=TIME),
    terminated=record(
        exitCode=INT32,
        signal=INT32,
        reason=STRING,
        message=STRING,
        startedAt={**TIME, "nullable": True},
        finishedAt={**TIME, "nullable": True},
        containerID=STRING,
    ),
)
_CONTAINER_STATUSES: Final = array(
    record(
        name=STRING,
        state=_CONTAINER_STATE,
        lastState=_CONTAINER_STATE,
        ready=BOOLEAN,
        restartCount=INT32,
        image=STRING,
        imageID=STRING,
        containerID=STRING,
        started=BOOLEAN,
        allocatedResources=QUANTITIES,
        resources=RESOURCES,
        volumeMounts=map_list("mountPath", FREE_OBJECT),
        user=FREE_OBJECT,
        allocatedResourcesStatus=array(FREE_OBJECT),
        stopSignal=STRING,
    )
)
POD_STATUS: Final = record(
    observedGeneration=INT64,
    phase=STRING,
    conditions=CONDITIONS,
    message=STRING,
    reason=STRING,
    nominatedNodeName=STRING,
    hostIP=STRING,
    hostIPs=array(record(ip=STRING)),
    podIP=STRING,
    podIPs=map_list("ip", record(ip=STRING)),
    startTime=TIME,
    initContainerStatuses=_CONTAINER_STATUSES,
    containerStatuses=_CONTAINER_STATUSES,
    ephemeralContainerStatuses=_CONTAINER_STATUSES,
    qosClass=STRING,
    resize=STRING,
    resourceClaimStatuses=map_list("name", record(name=STRING, resourceClaimName=STRING)),
    allocatedResources=mapping(ANYTHING),
    resources=RESOURCES,
)
POD: Final = kind(spec=POD_SPEC, status=POD_STATUS)
