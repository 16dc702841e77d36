"""The models, and who is not one."""

import pytest

from tensor_reshape.rules.errors import NotFoundError, Reason
from tensor_reshape.server.oip.models import MODELS, Model, find_model


def test_the_models_are_four():
    assert list(MODELS) == ["static_reshape", "dynamic_reshape", "reshape", "infer_shape"]


@pytest.mark.parametrize("version", ["", "1"])
def test_a_model_is_found_by_its_name(version: str):
    assert all(find_model(name, version) is model for name, model in MODELS.items())


@pytest.mark.parametrize(
    ("name", "version", "field"),
    [("", "", "model_name"), ("Reshape", "1", "model_name"), ("reshape", "2", "model_version")],
)
def test_another_is_not_found(name: str, version: str, field: str):
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: ") as caught:
        find_model(name, version)
    assert (caught.value.reason, caught.value.field) == (Reason.MODEL_UNKNOWN, field)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_properties_tell_of_each_parameter_and_of_each_type(model: Model):
    properties = model.properties
    assert {f"parameters.{name}" for name in model.parameters} <= properties.keys()
    for spec in (model.first, model.target):
        assert spec.datatype in properties[f"inputs.{spec.name}.datatypes"].split(", ")
