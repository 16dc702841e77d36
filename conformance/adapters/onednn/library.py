"""What is known of oneDNN."""

from conformance.adapters.libraries import Implementation, Library

LIBRARY = Library(
    title="oneDNN",
    distributions=("onednn", "onednn-devel"),
    implementations=(
        Implementation(
            name="onednn",
            asked="A partition of one StaticReshape that it compiles for the processor, and executes where there are bytes.",
        ),
    ),
    lacks="DynamicReshape, Reshape-1, shapes that are known in part, and element types beyond its own.",
    deviations=(),
)
