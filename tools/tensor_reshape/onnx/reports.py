"""Defines the report of a model check, which contains a finding for each Reshape node."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.onnx.interpreter import Decision
from tensor_reshape.onnx.probes import format_sizes
from tensor_reshape.onnx.requirements import Demand, ModelVerdict, Requirement
from tensor_reshape.onnx.reshape_nodes import ReshapeNode
from tensor_reshape.rules.dims import AnyDim, find_bounds, format_dim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.wire.batches import describe_rejection
from tensor_reshape.wire.dims import encode_shape, encode_target
from tensor_reshape.wire.inference import encode_condition
from tensor_reshape.wire.json_messages import Json, describe_message


class Verdict(Enum):
    """The verdict about a Reshape node.

    >>> check_model(model).count(Verdict.KNOWN)
    1
    """

    KNOWN = "known"
    """onnx infers the same output, and each dimension is a number or a name in the model."""

    CLOSED = "closed"
    """onnx leaves dimensions unknown. This check infers each one as a number or a product of names in the model."""

    NARROWED = "narrowed"
    """onnx leaves dimensions unknown. This check infers some of these dimensions."""

    OPEN = "open"
    """This check infers no more dimensions than onnx. It may infer fewer, because onnx treats each item as a size."""

    DISAGREES = "disagrees"
    """The model or onnx states another output shape."""

    REJECTED = "rejected"
    """The node fails for every input, or its query is above a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the check for one Reshape node.

    Attributes:
        node: the Reshape node.
        answer: the inferred output shape, or the error if the node rejects every input.
        declared: the output shape that the model declares, with None for each unknown dimension. The whole shape is
            None if the model declares no shape.
        inferred: the output shape that onnx infers if the declared shape is removed.
        disagreements: a sentence for each contradiction between these shapes.
        verdict: the verdict about the node.
        origin: the line of source code from which the node was exported, such as `model.py:12: return x.view(1, -1)`.
            It is empty if the exporter has not stored this line.
        advice: a sentence that says what to write instead, or an empty text.

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
    origin: str = ""
    advice: str = ""

    @property
    def copies(self) -> tuple[str, ...]:
        """A sentence for each item of the requested shape that may copy a dimension in some runs."""
        target = self.node.target or ()
        return tuple(
            f"shape[{at}] is {format_dim(target[at])}; if it is 0, it copies dimension {at}: treated as unknown"
            for at in self.node.copying
        )

    @property
    def is_good(self) -> bool:
        """Whether the node accepts some inputs, and no other shape contradicts the inferred shape."""
        return self.verdict not in {Verdict.REJECTED, Verdict.DISAGREES}

    def __str__(self) -> str:
        """The finding as one line of text, such as `head: [N, 12, 64] under [0, -1] is [N, 768]`."""
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
            "data": _describe_shape(node.data),
            "shape": _describe_target(node.target),
            "copying": list(node.copying),
            "data_from": node.data_from,
            "special_zero": node.special_zero,
            "declared": _describe_shape(self.declared),
            "inferred": _describe_shape(self.inferred),
            "verdict": self.verdict.value,
            "disagreements": list(self.disagreements),
            "origin": self.origin,
            "advice": self.advice,
        }
        if isinstance(answer, ReshapeError):
            return {**record, "rejection": describe_rejection(answer)}
        return {**record, "answer": answer.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedProbe:
    """A Reshape node that rejects certain sizes of the inputs, although no condition excludes these sizes.

    Attributes:
        node: the index of the node's finding in the report.
        label: the name of the node, or the name of its output if the node has no name.
        sizes: the rejected size of each dynamic dimension.
        decision: the shapes at the node for these sizes, and the error.

    >>> check_model(model).failed_probes
    ()
    """

    node: int
    label: str
    sizes: Mapping[str, int]
    decision: Decision

    def __str__(self) -> str:
        """The failed probe as text, such as `rows fails for h=16 w=14: [1, 3, 8, 7] under [0, 147] rejected: ...`."""
        return f"{self.label} fails for {format_sizes(self.sizes)}: {self.decision}"

    def to_json(self) -> Json:
        """Returns the failed probe in the form of JSON."""
        return {"node": self.node, "sizes": dict(self.sizes), **describe_decision(self.decision)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelReport:
    """The report of a model check.

    Attributes:
        findings: a finding for each Reshape node, in the order of the nodes in the file.
        notes: a sentence for each step of the check that failed or was left out.
        requirements: the conditions that the inputs of the model must satisfy.
        contradiction: a smallest set of conditions that contradict each other for all inputs with elements. Each
            condition has the index of its node. The tuple is empty if the check finds no contradiction.
        failed_probes: the nodes that reject sizes although no condition excludes these sizes.
        remarks: sentences about the model that do not change the verdict. They are about sizes that a node other than
            Reshape rejects, dimensions that can only change together, and names that do not stay in dimension 0.
        claims: a sentence for each wrong declared shape of a tensor that is not the output of a Reshape node.
        tried: the number of choices of input sizes that were tried.
        base: sizes that every node accepts, or None if none were found.
        undecided: a sentence for each reason why the verdict about the model is undecided.

    >>> report = check_model(model)
    >>> report.is_good, report.disagreements, len(report.requirements)
    (True, (), 1)
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    contradiction: tuple[Demand, ...] = ()
    failed_probes: tuple[FailedProbe, ...] = ()
    remarks: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    tried: int = 0
    base: Mapping[str, int] | None = None
    undecided: tuple[str, ...] = ()

    @property
    def disagreements(self) -> tuple[str, ...]:
        """A sentence for each shape that is wrong, whether the model declares it or onnx infers it."""
        return (*(text for finding in self.findings for text in finding.disagreements), *self.claims)

    @property
    def counts(self) -> dict[str, int]:
        """The number of nodes with each verdict."""
        return {verdict.value: self.count(verdict) for verdict in Verdict}

    def count(self, verdict: Verdict) -> int:
        """Returns the number of nodes with a given verdict."""
        return Counter(finding.verdict for finding in self.findings)[verdict]

    @property
    def is_good(self) -> bool:
        """Whether no node is rejected, no shape is wrong, and no conditions contradict each other."""
        return not self.contradiction and not self.disagreements and not self.count(Verdict.REJECTED)

    @property
    def verdicts(self) -> frozenset[str]:
        """All verdicts that apply to the model, and `disagrees` if a declared shape is wrong."""
        found = {requirement.verdict.value for requirement in self.requirements} - {ModelVerdict.OK.value}
        applies = {
            ModelVerdict.REJECTED.value: self.count(Verdict.REJECTED),
            ModelVerdict.CONTRADICTION.value: self.contradiction,
            ModelVerdict.UNDECIDED.value: self.undecided,
            ModelVerdict.RESTRICTED.value: self.failed_probes,
            Verdict.DISAGREES.value: self.disagreements,
        }
        return frozenset(found | {name for name, reason in applies.items() if reason})

    @property
    def verdict(self) -> ModelVerdict:
        """The most severe verdict about the inputs of the model."""
        severe = (one for one in reversed(ModelVerdict) if one.value in self.verdicts)
        return next(severe, ModelVerdict.OK)

    @property
    def summary(self) -> str:
        """The verdict and the counts as one line of text, which `tensor-reshape check` prints at the end."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items() if count)
        number = len(self.findings)
        nodes = f"{number} Reshape {'node' if number == 1 else 'nodes'}{f' ({counts})' if counts else ''}"
        tried = f"{self.tried or 'no'} {'size' if self.tried == 1 else 'sizes'} tried"
        return f"{self.verdict.value}: {nodes}, {tried}"

    def __repr__(self) -> str:
        """The type and the summary of the report, because all findings would fill several screens."""
        return f"<ModelReport {self.summary}>"

    def to_json(self) -> Json:
        """Returns the report in the form of JSON."""
        return {
            "nodes": [finding.to_json() for finding in self.findings],
            "counts": self.counts,
            "notes": list(self.notes),
            "verdict": self.verdict.value,
            "verdicts": sorted(self.verdicts),
            "requires": [requirement.to_json() for requirement in self.requirements],
            "contradiction": [
                {"condition": describe_message(encode_condition(condition)), "node": node}
                for condition, node in self.contradiction
            ],
            "failed_probes": [failed.to_json() for failed in self.failed_probes],
            "remarks": list(self.remarks),
            "claims": list(self.claims),
            "tried": self.tried,
            "base": None if self.base is None else dict(self.base),
            "undecided": list(self.undecided),
        }


def describe_decision(decision: Decision) -> Json:
    """Returns a decision in the form of JSON."""
    error = decision.error
    return {
        "data": _describe_shape(decision.data),
        "shape": _describe_target(decision.target),
        "output_shape": _describe_shape(decision.output),
        "rejection": None if error is None else describe_rejection(error),
        "undecided": decision.cause,
    }


def _describe_shape(dims: Sequence[AnyDim] | None) -> Json | None:
    return None if dims is None else describe_message(encode_shape(dims))


def _describe_target(items: Sequence[AnyDim] | None) -> Json | None:
    return None if items is None else describe_message(encode_target(items))


def find_disagreement(source: str, stated: Sequence[AnyDim] | None, have: InferredShape) -> str | None:
    """Returns a sentence if a shape from `source` contradicts the inferred shape. Names of dimensions are not compared.

    Returns None if both shapes can be right.
    """
    if stated is None or have.dims is None:
        return None
    if len(stated) != len(have.dims):
        return f"{source} says {format_dims(stated)}, of rank {len(stated)}; the shape is {have}"
    for index, (one, other) in enumerate(zip(stated, have.dims, strict=True)):
        if find_bounds(one).meet(find_bounds(other)).is_empty:
            return f"{source} says that dimension {index} is {format_dim(one)}; the shape is {have}"
    return None
