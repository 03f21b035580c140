"""How good an encoder is: ranks counted exactly, judged by trec_eval's rules, compared fairly."""
