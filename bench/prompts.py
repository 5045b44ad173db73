"""Twenty fixed prompts of diverse kinds, read as plain text by every model.

Changing one changes every published divergence: add new ones to a list of their own.
"""

from __future__ import annotations

PROMPTS: tuple[str, ...] = (
    "The capital of France is",
    "Once upon a time, in a village at the edge of a great forest, there lived a clockmaker who",
    "Explain in simple words why the sky is blue during the day and red in the evening.\n\n",
    'def fibonacci(n: int) -> int:\n    """Return the n-th Fibonacci number."""\n',
    "#include <stdio.h>\n\nint main(void) {\n    // print the first ten squares\n",
    "SELECT customers.name, COUNT(orders.id) AS n_orders\nFROM customers\n",
    '{\n  "name": "Ada Lovelace",\n  "born": 1815,\n  "occupation":',
    "Question: A train travels 60 km in 45 minutes. What is its average speed in km/h?\nAnswer: Let us",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy",
    "Dear Ms. Alvarez,\n\nThank you for your letter of 3 March. I am writing to let you know that",
    "Ingredients: 200 g flour, 2 eggs, 300 ml milk, a pinch of salt.\n\nMethod:\n1.",
    "In mathematics, a prime number is a natural number greater than 1 that",
    "La révolution industrielle a commencé en Angleterre au XVIIIe siècle, lorsque",
    "Der schnellste Weg, eine neue Sprache zu lernen, ist",
    "The patient presented with fever, a dry cough and fatigue. The differential diagnosis includes",
    "Breaking news: scientists announced on Tuesday that they have discovered",
    "User: How do I undo the last commit in git?\nAssistant:",
    "| Country | Capital | Population |\n|---|---|---|\n| Japan | Tokyo | 125 million |\n| Brazil |",
    "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n",
    "1, 1, 2, 3, 5, 8, 13, 21,",
)
