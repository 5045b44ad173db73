"""From the model's logits to the survivors among which a token is chosen; one stage a file.

`stage` is the protocol, `pipeline` the order, `temperature` and `truncation` are stages, `choose`
picks one survivor.
"""
