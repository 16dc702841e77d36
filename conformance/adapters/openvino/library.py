"""What is known of OpenVINO."""

from conformance.adapters.libraries import Implementation, Library

LIBRARY = Library(
    title="OpenVINO",
    distributions=("openvino",),
    implementations=(
        Implementation(
            name="openvino",
            asked="A node of Reshape-1 that it validates; bytes are what the reference implementation makes of them.",
        ),
    ),
    lacks="StaticReshape and DynamicReshape, an expected output shape, strides, and symbols that are expressions.",
    deviations=(),
)
