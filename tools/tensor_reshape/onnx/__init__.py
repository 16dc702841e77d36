"""Checks the Reshape nodes of ONNX models. This package needs the extra `onnx`.

The function `check_model` infers the output shape of each Reshape node and tries sizes of the inputs. It compares the
results with the shapes that the model declares and with those that the package onnx infers. Its report also contains
the conditions that the model's inputs must satisfy. The function `check_profile` computes the model for concrete input
shapes. The function `annotate_model` also returns a copy of the model that contains the inferred shapes. No function
runs the model or reads its weights.
"""

from tensor_reshape.onnx.checks import annotate_model, check_model, check_profile
from tensor_reshape.onnx.models import ModelError
from tensor_reshape.onnx.profiles import ProfileError, ProfileReport
from tensor_reshape.onnx.reports import FailedProbe, Finding, ModelReport, Verdict
from tensor_reshape.onnx.requirements import ModelVerdict, Requirement
from tensor_reshape.onnx.reshape_nodes import ReshapeNode

__all__ = [
    "FailedProbe",
    "Finding",
    "ModelError",
    "ModelReport",
    "ModelVerdict",
    "ProfileError",
    "ProfileReport",
    "Requirement",
    "ReshapeNode",
    "Verdict",
    "annotate_model",
    "check_model",
    "check_profile",
]
