"""Networks: tokens in, logits out; independent of objectives and loss."""
