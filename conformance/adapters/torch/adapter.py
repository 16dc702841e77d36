"""Asks torch: `tensor.reshape(shape)`, eagerly, and without data.

- An eager tensor of which only the shape matters repeats one byte, so that one of 2^62 elements can be made.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from conformance.adapters.array_libraries import (
    check_is_offered,
    check_type,
    find_span,
    list_types,
    read_known,
    read_line,
    reject_data,
)
from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Json, Question, write_answer

Tensor: TypeAlias = Any  # what is asked of it, is asked of torch as it is, without its types

DTYPES = list_types(partial(getattr, torch)) | {
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
_REJECTIONS = (RuntimeError, TypeError, ValueError, OverflowError)


def answer_eager(question: Question) -> Json:
    """Returns what becomes of a tensor."""
    return _answer_known(question, "cpu")


def answer_meta(question: Question) -> Json:
    """Returns what becomes of a tensor without data."""
    if question.payload is not None:
        raise Unsupported("It has no data.")
    return _answer_known(question, "meta")


def _answer_known(question: Question, device: str) -> Json:
    check_is_offered(question)
    dims, shape = read_known(question.data), read_known(question.shape)
    check_type(question, DTYPES)
    tensor = _make_tensor(question, dims, device)
    output = _reshape(tensor, shape)
    payload = None
    if question.payload is not None:
        # A contiguous tensor keeps the stride of a dim of 1, with which its elements cannot be viewed as bytes.
        dense = output.contiguous()
        flat = torch.as_strided(dense, (dense.numel(),), (1,))
        payload = bytes(flat.view(torch.uint8).tolist())
    return write_answer(output.shape, payload)


def _make_tensor(question: Question, dims: tuple[int, ...], device: str) -> Tensor:
    try:
        if question.payload is not None:
            return _make_filled(question, dims)
        if device == "meta":
            return torch.empty(dims, dtype=torch.uint8, device=device)
        return torch.as_strided(torch.zeros(1, dtype=torch.uint8), dims, [0] * len(dims))
    except _REJECTIONS as error:
        raise reject_data(dims, read_line(error)) from error


def _make_filled(question: Question, dims: tuple[int, ...]) -> Tensor:
    dtype = DTYPES[question.data_type or "u8"]
    flat = torch.tensor(list(question.payload or b""), dtype=torch.uint8).view(dtype)
    if question.strides is None:
        if flat.numel() != torch.Size(dims).numel():
            raise Unsupported("A tensor has the bytes of its shape.")
        return flat.view(dims)
    if flat.numel() > find_span(dims, question.strides):
        raise Unsupported("The memory of a tensor may be longer than it is.")
    return _stride(flat, dims, question.strides)


def _stride(flat: Tensor, dims: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    try:
        return torch.as_strided(flat, dims, strides)
    except _REJECTIONS as error:
        raise Rejected(read_line(error)) from error


def _reshape(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    try:
        return tensor.reshape(shape)
    except _REJECTIONS as error:
        raise Rejected(read_line(error)) from error


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run({"torch": answer_eager, "torch-meta": answer_meta})
