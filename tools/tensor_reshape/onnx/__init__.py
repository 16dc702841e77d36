"""Reshape nodes of ONNX models, checked by the rules; the extra `onnx`.

`check_model` asks what each Reshape node of a model gives, and compares the answers with what the model and onnx's own
shape inference say; `annotate_model` returns a copy of the model with the answers besides. Neither runs the model, nor
needs its weights.
"""

from tensor_reshape.onnx.checks import annotate_model, check_model
from tensor_reshape.onnx.models import ModelError
from tensor_reshape.onnx.reports import Finding, ModelReport, Verdict
from tensor_reshape.onnx.reshape_nodes import ReshapeNode

__all__ = ["Finding", "ModelError", "ModelReport", "ReshapeNode", "Verdict", "annotate_model", "check_model"]
