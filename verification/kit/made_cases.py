"""Cases that nobody wrote by hand: recorded ones and grids make the full size, hostile questions the hostile one.

Laws:

- A recorded case is one that a library answered; its line in the file is where it is kept, with what was answered. Its
  own answer is made anew.
- The answer is that of the project's rules. It stands for what the instances say (`witnesses`), and for what a plain
  reading says: `scripts/verify kit` compares them.
- An answer that comes from a search which ran out of steps is sound, and says that it may not be the hull.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from tensor_reshape.rules.records import Json
from verification.kit.grids import list_grid
from verification.kit.hostile_questions import list_hostile
from verification.kit.mistakes import answer_rightly, is_searched
from verification.kit.questions import list_questions
from verification.kit.rows import ALL
from verification.kit.sentences import UNSEARCHED, find_rule, find_sentence


def list_recorded(folder: Path) -> Iterator[Json]:
    """Yields the cases of a folder that a library answered, each with the answer of the rules of now."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            case = json.loads(line)
            if "recorded" in case:
                (question,) = list_questions(case)
                answer = answer_rightly(question)
                sentence = find_sentence(case["rule"], answer) if is_searched(question) else UNSEARCHED
                yield {**case, "answer": answer, "because": sentence}


def make_full(folder: Path) -> dict[str, list[Json]]:
    """Returns the cases of the full size by their rules, the recorded ones first."""
    rules = defaultdict[str, list[Json]](list)
    for case in list_recorded(folder):
        rules[case["rule"]].append(case)
    return _join(rules, _make(list_grid(), "small"))


def make_hostile() -> dict[str, list[Json]]:
    """Returns the cases of the hostile size by their rules."""
    return _join(defaultdict(list), _make(list_hostile(), "hostile"))


def _join(rules: dict[str, list[Json]], cases: Iterable[Json]) -> dict[str, list[Json]]:
    for case in cases:
        rules[case["rule"]].append(case)
    return dict(rules)


def _make(questions: Iterable[Json], name: str) -> Iterator[Json]:
    """Yields the cases of questions: one for all operations, or more where they answer differently."""
    for text in dict.fromkeys(map(json.dumps, questions)):
        question: Json = json.loads(text)
        for operations, answer in _group(question):
            rule = find_rule(question, answer)
            case: Json = {"id": f"{rule}/{name}-{_find_id(text, operations[0])}", "rule": rule}
            case |= {"operations": operations, **question}
            yield {**case, "answer": answer, "because": find_sentence(rule, answer)}


def _find_id(text: str, operation: str) -> str:
    """Returns what tells a case from others: what is asked, and the operation where the first one answers otherwise.

    So it stays the same whatever is asked besides, and where an operation comes to answer otherwise, those of the
    others stay.
    """
    digest = sha256(text.encode()).hexdigest()[:10]
    return digest if operation == ALL[0] else f"{digest}-{operation.replace('_', '-')}"


def _group(question: Json) -> Iterator[tuple[list[str], Json]]:
    """Yields the operations that answer the same, and what they answer."""
    answers = [(operation, answer_rightly({**question, "operation": operation})) for operation in ALL]
    for answer in (
        answer for index, (_, answer) in enumerate(answers) if answer not in [a for _, a in answers[:index]]
    ):
        yield [operation for operation, told in answers if told == answer], answer
