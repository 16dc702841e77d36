"""What the explorer shows of a shape question: the answer or the rejection, the drawing, and the question as code."""
