"""Checks the Reshape nodes of ONNX models. This package needs the extra `onnx`.

The function `check_model` infers the output shape of each Reshape node, and compares it with the shapes that the model
declares and that onnx infers. The function `annotate_model` also returns a copy of the model that contains the inferred
shapes. Neither function runs the model or reads its weights.
"""

from tensor_reshape.onnx.checks import annotate_model, check_model
from tensor_reshape.onnx.models import ModelError
from tensor_reshape.onnx.reports import Finding, ModelReport, Verdict
from tensor_reshape.onnx.reshape_nodes import ReshapeNode

__all__ = ["Finding", "ModelError", "ModelReport", "ReshapeNode", "Verdict", "annotate_model", "check_model"]
