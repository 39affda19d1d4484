import pytest

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            FieldError("spec.x", FieldErrorKind.INVALID, "must be odd", 2),
            "spec.x: Invalid value: 2: must be odd",
        ),
        (
            FieldError("spec.x", FieldErrorKind.INVALID, "no", 'a"b'),
            'spec.x: Invalid value: "a\\"b": no',
        ),
        (FieldError("spec.x", FieldErrorKind.REQUIRED), "spec.x: Required value"),
        (FieldError("a[0]", FieldErrorKind.DUPLICATE, "", "b"), 'a[0]: Duplicate value: "b"'),
        (FieldError("a", FieldErrorKind.FORBIDDEN, "never", 3), "a: Forbidden: never"),
        (
            FieldError("a", FieldErrorKind.NOT_SUPPORTED, 'supported values: "b"', "c"),
            'a: Unsupported value: "c": supported values: "b"',
        ),
    ],
    ids=["number", "quoted", "required", "duplicate", "forbidden", "unsupported"],
)
def test_a_field_error_reads_as_kubernetes_words_it(error, text):
    assert str(error) == text


def test_an_invalid_object_lists_each_field_as_a_cause():
    errors = [
        FieldError("spec.a", FieldErrorKind.REQUIRED),
        FieldError("spec.b", FieldErrorKind.INVALID, "too small", 1),
    ]

    answer = status.invalid("lab.test", "Widget", "w", errors).to_status()

    assert answer["message"] == (
        'Widget.lab.test "w" is invalid: [spec.a: Required value, '
        "spec.b: Invalid value: 1: too small]"
    )
    assert (answer["code"], answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: 1: too small",
            "field": "spec.b",
        },
    ]


def test_apply_conflicts_are_grouped_by_manager():
    error = status.apply_conflict(
        [('"b" using v1', ".x"), ('"a" using v1', ".y"), ('"b" using v1', ".z")]
    )

    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "a" using v1:\n- .y\n'
        'conflicts with "b" using v1:\n- .x\n- .z'
    )


def test_a_single_apply_conflict_is_one_line():
    error = status.apply_conflict([('"a" using v1', ".y")])

    assert error.message == 'Apply failed with 1 conflict: conflict with "a" using v1: .y'
