"""Networks: tokens in, logits out; they know nothing of objectives or loss."""
