"""What the explorer shows of a shape question: the answer or the refusal, the drawing, and the question as code."""
