"""The scoreboard: changes of known effect in recordings, the answers of `hta` to them, and the table of both."""
