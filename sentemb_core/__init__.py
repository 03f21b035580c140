"""sentemb: unlabelled documents in, a sentence encoder for their domain out."""
