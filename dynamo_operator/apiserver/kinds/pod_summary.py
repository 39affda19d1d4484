"""A Pod in one line of `kubectl get pods`: how many containers are ready, its state, restarts.

The state is the word that says most: of an init container that holds the others up (`Init:...`),
else of the first container that waits or has ended, else of the Pod as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.tables import age_since

_Status = Mapping[str, Any]


def ready(pod: Object) -> str:
    """How many containers are ready, sidecars among them: `1/2`."""
    sidecars = _sidecars(pod)
    total = len(pod["spec"].get("containers") or ()) + len(sidecars)
    count = sum(
        _started(status) and bool(status.get("ready"))
        for status in _init_statuses(pod)[: _holding_up(pod)]
        if status["name"] in sidecars
    )
    if _shows_containers(pod):
        count += sum(map(_serves, _main_statuses(pod)))
    return f"{count}/{total}"


def state(pod: Object) -> str:
    """The Pod's state in one word: `Running`, `Error`, `Init:0/1`, `Terminating`."""
    status = pod.get("status") or {}
    phase, reason = status.get("phase") or "Unknown", status.get("reason")
    text = _state_of_containers(pod, _state_of_init(pod) or _gate(status) or reason or phase)
    if pod["metadata"].get("deletionTimestamp"):
        if reason == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return text


def restarts(pod: Object, now: datetime) -> str:
    """How often containers were started again, and when last: `3 (2m ago)`."""
    counted = _init_statuses(pod)
    if _shows_containers(pod):
        sidecars = _sidecars(pod)
        counted = [*(s for s in counted if s["name"] in sidecars), *_main_statuses(pod)]
    count = sum(status.get("restartCount") or 0 for status in counted)
    last = max(filter(None, map(_last_end, counted)), default="")
    return f"{count} ({age_since(last, now)} ago)" if count and last else str(count)


def _state_of_init(pod: Object) -> str:
    index = _holding_up(pod)
    if index is None:
        return ""
    current = _init_statuses(pod)[index].get("state") or {}
    if (ended := current.get("terminated")) is not None:
        return f"Init:{_end(ended)}"
    waiting = (current.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{len(pod['spec'].get('initContainers') or ())}"


def _state_of_containers(pod: Object, otherwise: str) -> str:
    if not _shows_containers(pod):
        return otherwise
    statuses = _main_statuses(pod)
    text = next(filter(None, map(_standstill, statuses)), otherwise)
    if text == "Completed" and any(map(_serves, statuses)):
        return "Running" if _is_true(pod, "Ready") else "NotReady"
    return text


def _holding_up(pod: Object) -> int | None:
    """Which init container is not over yet, or has failed."""
    sidecars = _sidecars(pod)
    for index, status in enumerate(_init_statuses(pod)):
        ended = (status.get("state") or {}).get("terminated")
        is_over = ended is not None and ended.get("exitCode", 0) == 0
        if not is_over and not (status["name"] in sidecars and _started(status)):
            return index
    return None


def _shows_containers(pod: Object) -> bool:
    return _holding_up(pod) is None or _is_true(pod, "Initialized")


def _standstill(status: _Status) -> str:
    """Why a container does not run; empty when it does."""
    current = status.get("state") or {}
    waiting = (current.get("waiting") or {}).get("reason")
    ended = current.get("terminated")
    return str(waiting or (_end(ended) if ended is not None else ""))


def _end(ended: _Status) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _gate(status: _Status) -> str:
    gated = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated"
        for c in status.get("conditions") or ()
    )
    return "SchedulingGated" if gated else ""


def _serves(status: _Status) -> bool:
    current = status.get("state") or {}
    return bool(status.get("ready")) and current.get("running") is not None


def _started(status: _Status) -> bool:
    return status.get("started") is True


def _last_end(status: _Status) -> str:
    ended = (status.get("lastState") or {}).get("terminated") or {}
    return str(ended.get("finishedAt") or "")


def _is_true(pod: Object, condition: str) -> bool:
    conditions: Iterable[_Status] = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == condition and c.get("status") == "True" for c in conditions)


def _sidecars(pod: Object) -> frozenset[str]:
    init = pod["spec"].get("initContainers") or ()
    return frozenset(c["name"] for c in init if c.get("restartPolicy") == "Always")


def _init_statuses(pod: Object) -> list[_Status]:
    return list((pod.get("status") or {}).get("initContainerStatuses") or ())


def _main_statuses(pod: Object) -> list[_Status]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())
