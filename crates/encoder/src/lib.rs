//! Model files in, embeddings out: configuration, weights, tokenizer, forward pass, pooling.
