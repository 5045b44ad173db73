"""Which tokens end a generation.

The rule: every id the files declare (eos, end of turn, end of message, the eos ids of the generation
config), and every *control* token whose text is one of the names below. Files often declare only one of
the several ends their model writes: a chat model's "<|im_end|>" but not its "<|endoftext|>", or the other
way round, and a text that runs past its end is worse than one declared end too many. A name counts only when
the file says the token is control, or marks no control token at all; the same characters as ordinary
text never end anything.
"""

from __future__ import annotations

END_NAMES: frozenset[str] = frozenset(
    {
        "</s>",
        "<eos>",
        "<EOS>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<｜end▁of▁sentence｜>",
        "<|im_end|>",
        "<|end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|eot|>",
        "<|eom|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<|END_OF_TURN_TOKEN|>",
        "<end_of_utterance>",
        "<EOT>",
        "<|return|>",
        "<|call|>",
        # A code model that fills in the middle of a file writes one of these when the file is over.
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
    }
)
