"""What a check of a model found: a finding for each Reshape node."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.onnx.reshape_nodes import ReshapeNode
from tensor_reshape.rules.dims import AnyDim, find_bounds, format_dim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.json_format import Json, describe_dims


class Verdict(Enum):
    """What is to be said of a node.

    >>> check_model(model).count(Verdict.KNOWN)
    1
    """

    KNOWN = "known"
    """onnx's own shape inference has its output, each dim a number or a name of the model's; nothing contradicts it."""

    CLOSED = "closed"
    """onnx's own shape inference leaves dims of its output open; here each is a number or a product of such names."""

    NARROWED = "narrowed"
    """onnx's own shape inference leaves dims of its output open, here fewer stay so."""

    OPEN = "open"
    """As many dims of its output, or the rank, stay open here, or more: onnx takes each item for a length."""

    DISAGREES = "disagrees"
    """The model, or onnx, has another shape for its output."""

    REJECTED = "rejected"
    """It fails whatever the model is run with, or its question is above a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found of one node.

    Attributes:
        node: the node, with what was asked.
        answer: the shape of its output, or the rejection.
        declared: what the model says of its output, None for an unknown dim; None: nothing.
        inferred: the same of onnx's own inference, without what the model declares there.
        disagreements: a sentence for each contradiction.
        verdict: what is to be said.

    >>> (finding,) = check_model(model).findings
    >>> print(finding, finding.verdict.value, sep=": ")
    y: [N, 12, 64] under [0, -1] is [N, 768]: known
    """

    node: ReshapeNode
    answer: InferredShape | ReshapeError
    declared: tuple[AnyDim, ...] | None
    inferred: tuple[AnyDim, ...] | None
    disagreements: tuple[str, ...]
    verdict: Verdict

    @property
    def copies(self) -> tuple[str, ...]:
        """A sentence for each item of the target that is no length in every run."""
        target = self.node.target or ()
        return tuple(
            f"shape[{place}] is {format_dim(target[place])}; if it is 0, it copies dim {place}: treated as unknown"
            for place in self.node.copying
        )

    def __str__(self) -> str:
        """The finding as a line: `head: [N, 12, 64] under [0, -1] is [N, 768]`."""
        node = self.node
        place = node.name or node.output
        answer = f"rejected: {self.answer}" if isinstance(self.answer, ReshapeError) else f"is {self.answer}"
        return f"{place}: {format_dims(node.data)} under {format_dims(node.target)} {answer}"

    def to_json(self) -> Json:
        """Returns the finding as `json` writes it."""
        node, answer = self.node, self.answer
        record: Json = {
            "name": node.name,
            "graph": node.graph,
            "output": node.output,
            "data": describe_dims(node.data),
            "target": describe_dims(node.target),
            "copying": list(node.copying),
            "data_from": node.data_from,
            "special_zero": node.special_zero,
            "declared": describe_dims(self.declared),
            "inferred": describe_dims(self.inferred),
            "verdict": self.verdict.value,
            "disagreements": list(self.disagreements),
        }
        if isinstance(answer, ReshapeError):
            return {**record, "error": {"reason": str(answer.reason), "message": answer.message, "field": answer.field}}
        return {**record, **answer.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """What was found in a model.

    Attributes:
        findings: of each Reshape node, in the order of the file.
        notes: what could not be done.

    >>> report = check_model(model)
    >>> report.is_good, report.disagreements
    (True, ())
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def disagreements(self) -> tuple[str, ...]:
        """All contradictions."""
        return tuple(text for finding in self.findings for text in finding.disagreements)

    def count(self, verdict: Verdict) -> int:
        """Returns of how many nodes this is to be said."""
        return Counter(finding.verdict for finding in self.findings)[verdict]

    @property
    def is_good(self) -> bool:
        """Whether no node is rejected, and nothing contradicts."""
        return not (self.count(Verdict.REJECTED) or self.count(Verdict.DISAGREES))

    def to_json(self) -> Json:
        """Returns the report as `json` writes it."""
        return {
            "nodes": [finding.to_json() for finding in self.findings],
            "counts": {verdict.value: self.count(verdict) for verdict in Verdict},
            "notes": list(self.notes),
        }


def find_disagreement(source: str, told: Sequence[AnyDim] | None, have: InferredShape) -> str | None:
    """Returns what `source` says otherwise of a shape; None where both can be true, whatever names they have."""
    if told is None or have.dims is None:
        return None
    if len(told) != len(have.dims):
        return f"{source} says {format_dims(told)}, of rank {len(told)}; the shape is {have}"
    for index, (one, other) in enumerate(zip(told, have.dims, strict=True)):
        if find_bounds(one).meet(find_bounds(other)).is_empty:
            return f"{source} says that dim {index} is {format_dim(one)}; the shape is {have}"
    return None
