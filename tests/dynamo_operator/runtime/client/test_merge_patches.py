import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamo_operator.apiserver import ApiServer
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import Client, ConflictError, merge_patch
from dynamo_operator.testing import InProcessTransport

META = {"name": "a", "namespace": "lab", "resourceVersion": "7"}
OBJECTS = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda children: st.dictionaries(st.sampled_from("abc"), children, max_size=3),
    max_leaves=8,
)


def merged(target, patch):
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(before=OBJECTS, after=OBJECTS)
def test_a_patch_turns_one_state_into_the_other(before, after):
    old, new = {"metadata": META, "spec": before}, {"metadata": META, "spec": after}

    assert merged(old, merge_patch(old, new)) == new


def test_what_the_server_counts_is_no_change():
    later = {"metadata": {**META, "resourceVersion": "8", "managedFields": [], "generation": 2}}

    assert merge_patch({"metadata": META}, later) == {}


def test_what_did_not_change_is_not_in_the_patch():
    before = {"metadata": META, "data": {"k": "v", "l": "w"}, "other": [1]}
    after = {"metadata": META, "data": {"k": "x"}, "other": [1]}

    assert merge_patch(before, after) == {"data": {"k": "x", "l": None}}
    assert merge_patch(before, before) == {}


def test_a_lock_is_the_version_that_was_read():
    before = {"metadata": META}
    after = {"metadata": {**META, "labels": {"a": "b"}}}

    patch = merge_patch(before, after, optimistic_lock=True)

    assert patch == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}
    unversioned = {"metadata": {"name": "a", "namespace": "lab"}}
    with pytest.raises(ValueError, match="lab/a has no resourceVersion"):
        merge_patch(unversioned, unversioned, optimistic_lock=True)


def test_different_objects_have_no_patch():
    with pytest.raises(ValueError, match="lab/a and lab/b are different objects"):
        merge_patch({"metadata": META}, {"metadata": {**META, "name": "b"}})


async def test_a_locked_patch_is_refused_once_the_object_has_changed():
    async with Client.over(InProcessTransport(ApiServer())) as client:
        before = await client.create(ConfigMap.new("a", data={"k": "v"}))
        after = before.model_copy(update={"data": {"k": "x"}})
        locked = merge_patch(before, after, optimistic_lock=True)

        changed = await client.patch(ConfigMap, before.key, locked)
        with pytest.raises(ConflictError):
            await client.patch(ConfigMap, before.key, locked)
        again = await client.patch(ConfigMap, before.key, merge_patch(changed, before))

    assert changed.data == {"k": "x"}
    assert again.data == {"k": "v"}
