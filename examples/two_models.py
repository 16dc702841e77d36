"""A pipeline of two models: the output of the first is reshaped for the second.

The first model describes each patch of 4 x 4 pixels by a few numbers. The second model recognizes digits from the
numbers of the four patches of an image. A reshape between them turns a row for each patch into a row for each image.
Before the training, the program checks this reshape for every batch size. If the models do not fit together, the error
names the reason.

Run it with a running server: `python examples/two_models.py [HOST:PORT]`.
"""

import sys
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from tensor_reshape.client import Client

Array: TypeAlias = npt.NDArray[Any]

SIDE, PATCH = 8, 4  # pixels
PATCHES = (SIDE // PATCH) ** 2  # of an image
NUMBERS = 8  # for each patch, from the first model
TRAINED = 1200  # images for the training; the others are for the test


def check_shapes(client: Client) -> None:
    """Infers the shapes of N images in the pipeline, without any image.

    Raises:
        InvalidRequestError: the models do not fit together; the error names the wrong item.
    """
    grid = client.infer_shape(
        ["N", SIDE, SIDE], [0, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH], special_zero=True, operation="reshape"
    )
    # The pipeline transposes the grid, so that the pixels of a patch are neighbours.
    swapped = [grid[axis] for axis in (0, 1, 3, 2, 4)]
    patches = client.infer_shape(swapped, [-1, PATCH * PATCH], special_zero=False, operation="reshape")
    described = [patches[0], NUMBERS]
    images = client.infer_shape(
        described,
        [-1, PATCHES * NUMBERS],
        special_zero=False,
        operation="reshape",
        expected_shape=["N", PATCHES * NUMBERS],
    )
    print(f"{grid} -> {patches} -> first model -> [{patches[0]}, {NUMBERS}] -> {images} -> second model")


def cut_patches(client: Client, images: Array) -> Array:
    """Returns a row for each patch; the patches of an image follow each other."""
    grid = client.reshape(images, [0, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH], special_zero=True)
    # A view with strides: the SDK sends it without a copy, and the server gathers its elements.
    return client.reshape(grid.transpose(0, 1, 3, 2, 4), [-1, PATCH * PATCH], special_zero=False)


class Pipeline:
    """Two models and the reshape between them."""

    def __init__(self, client: Client) -> None:
        """Creates two untrained models."""
        self._client = client
        self._first = PCA(NUMBERS, random_state=0)
        self._second = LogisticRegression(max_iter=1000)

    def train(self, images: Array, digits: Array) -> None:
        """Trains the first model, and then the second one with the output of the first."""
        self._first.fit(cut_patches(self._client, images))
        self._second.fit(self._describe(images), digits)

    def predict(self, images: Array) -> Array:
        """Returns a digit for each image."""
        predicted: Array = self._second.predict(self._describe(images))
        return predicted

    def _describe(self, images: Array) -> Array:
        """Returns a row for each image, with the output of the first model for its patches."""
        described: Array = self._first.transform(cut_patches(self._client, images))
        return self._client.reshape(described, [-1, PATCHES * NUMBERS], special_zero=False)


def main(address: str) -> None:
    """Checks, trains and tests the pipeline."""
    digits = load_digits()
    with Client(address) as client:
        client.wait_until_ready()
        check_shapes(client)
        pipeline = Pipeline(client)
        pipeline.train(digits.images[:TRAINED], digits.target[:TRAINED])
        right = np.mean(pipeline.predict(digits.images[TRAINED:]) == digits.target[TRAINED:])
    print(f"{right:.0%} of {len(digits.images) - TRAINED} digits are recognized")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
