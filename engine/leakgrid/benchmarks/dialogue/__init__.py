"""CIMemories Dialogue: what two memory-bearing agents disclose to each other."""
