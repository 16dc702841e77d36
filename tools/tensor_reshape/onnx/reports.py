"""The result of a model check, with a finding for each Reshape node."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.onnx.constraints import Demand
from tensor_reshape.onnx.requirements import ModelVerdict, Requirement
from tensor_reshape.onnx.reshape_nodes import ReshapeNode
from tensor_reshape.rules.dims import AnyDim, find_bounds, format_dim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.json_format import Json, describe_condition, describe_dims


class Verdict(Enum):
    """The verdict about a Reshape node.

    >>> check_model(model).count(Verdict.KNOWN)
    1
    """

    KNOWN = "known"
    """onnx infers the same output, and each dim is a number or a name in the model."""

    CLOSED = "closed"
    """onnx leaves dims unknown. This check infers each dim as a number or a product of names in the model."""

    NARROWED = "narrowed"
    """onnx leaves dims unknown. This check infers some of these dims."""

    OPEN = "open"
    """This check infers no more dims than onnx. It may infer fewer, because onnx treats each item as a length."""

    DISAGREES = "disagrees"
    """The model or onnx states another output shape."""

    REJECTED = "rejected"
    """The node fails for every input, or its query is above a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The finding about one Reshape node.

    Attributes:
        node: the node.
        answer: the inferred output shape, or the rejection.
        declared: the output shape that the model declares, with None for an unknown dim. The value is None if
            the model declares no shape.
        inferred: the output shape that onnx infers without the declared shape.
        disagreements: a sentence for each contradiction between these shapes.
        verdict: the verdict.

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
        """A sentence for each target item that is not a length in every run."""
        target = self.node.target or ()
        return tuple(
            f"shape[{place}] is {format_dim(target[place])}; if it is 0, it copies dim {place}: treated as unknown"
            for place in self.node.copying
        )

    @property
    def is_good(self) -> bool:
        """Whether the node is not rejected, and no shape contradicts the inferred shape."""
        return self.verdict not in {Verdict.REJECTED, Verdict.DISAGREES}

    @property
    def is_undecided(self) -> bool:
        """Whether the node accepts some inputs but may reject others."""
        answer = self.answer
        return not isinstance(answer, ReshapeError) and bool(answer.conditions or not answer.conditions_complete)

    def __str__(self) -> str:
        """The finding in one line, such as `head: [N, 12, 64] under [0, -1] is [N, 768]`."""
        node, answer = self.node, self.answer
        text = f"rejected: {answer} [{answer.reason}]" if isinstance(answer, ReshapeError) else f"is {answer}"
        return f"{node.label}: {format_dims(node.data)} under {format_dims(node.target)} {text}"

    def to_json(self) -> Json:
        """Returns the finding in the form of JSON."""
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
    """The findings of a model check.

    Attributes:
        findings: a finding for each Reshape node, in the order of the nodes in the file.
        notes: a sentence for each step of the check that failed.
        requirements: the conditions that the inputs of the model must satisfy.
        contradiction: a smallest set of conditions that no input with elements satisfies, each with the index of its
            node. The tuple is empty if the check finds no contradiction.

    >>> report = check_model(model)
    >>> report.is_good, report.disagreements, len(report.requirements)
    (True, (), 1)
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    contradiction: tuple[Demand, ...] = ()

    @property
    def disagreements(self) -> tuple[str, ...]:
        """All contradictions."""
        return tuple(text for finding in self.findings for text in finding.disagreements)

    def count(self, verdict: Verdict) -> int:
        """Returns the number of nodes with a given verdict."""
        return Counter(finding.verdict for finding in self.findings)[verdict]

    @property
    def is_good(self) -> bool:
        """Whether no node is rejected, no shape is wrong, and no conditions contradict each other."""
        return not self.contradiction and all(finding.is_good for finding in self.findings)

    @property
    def verdict(self) -> ModelVerdict:
        """The most severe verdict about the inputs of the model."""
        if self.count(Verdict.REJECTED):
            return ModelVerdict.REJECTED
        if self.contradiction:
            return ModelVerdict.CONTRADICTION
        found = {requirement.verdict for requirement in self.requirements}
        severe = (ModelVerdict.FROZEN, ModelVerdict.RESTRICTED)
        return next((verdict for verdict in severe if verdict in found), ModelVerdict.OK)

    @property
    def undecided(self) -> tuple[Finding, ...]:
        """The findings of nodes that accept some inputs but may reject others."""
        return tuple(finding for finding in self.findings if finding.is_undecided)

    def to_json(self) -> Json:
        """Returns the report in the form of JSON."""
        return {
            "nodes": [finding.to_json() for finding in self.findings],
            "counts": {verdict.value: self.count(verdict) for verdict in Verdict},
            "notes": list(self.notes),
            "verdict": self.verdict.value,
            "requires": [requirement.to_json() for requirement in self.requirements],
            "contradiction": [
                {**describe_condition(condition), "node": node} for condition, node in self.contradiction
            ],
        }


def find_disagreement(source: str, stated: Sequence[AnyDim] | None, have: InferredShape) -> str | None:
    """Returns the contradiction between the shape of `source` and our shape, ignoring names.

    The result is None if both shapes can be right.
    """
    if stated is None or have.dims is None:
        return None
    if len(stated) != len(have.dims):
        return f"{source} says {format_dims(stated)}, of rank {len(stated)}; the shape is {have}"
    for index, (one, other) in enumerate(zip(stated, have.dims, strict=True)):
        if find_bounds(one).meet(find_bounds(other)).is_empty:
            return f"{source} says that dim {index} is {format_dim(one)}; the shape is {have}"
    return None
