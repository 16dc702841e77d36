"""Executes a Reshape-1 of OpenVINO in this process, and infers a shape."""

import numpy as np
import openvino
from openvino import PartialShape, opset1

data, target = opset1.parameter([2, 3, 4], np.float32), opset1.parameter([2], np.int64)
rows = opset1.reshape(data, target, special_zero=True)
model = openvino.compile_model(openvino.Model([rows], [data, target]), "CPU")

blocks = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
print(model([blocks, np.array([0, -1])])[0].shape)  # (2, 12)

batch = opset1.parameter(PartialShape([-1, 3, 4]), np.float32)
known = opset1.reshape(batch, opset1.constant(np.array([0, -1])), special_zero=True)
print(known.get_output_partial_shape(0))  # [?,12]

try:
    model([blocks, np.array([5, -1])])
except RuntimeError as error:
    print(type(error).__name__)  # RuntimeError
