"""From the model's logits to the survivors among which a token is chosen; one stage a file.

`stage` is the protocol, `orders` what runs when, `pipeline` runs it, `choose` picks one survivor.
"""
