"""How claims are judged: experiments, studies in progress, and the rules."""
