"""Instructions read out as sentences, one module a language, and known facts about their launch."""
