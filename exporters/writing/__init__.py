"""From rollouts to lines, and from lines to files: queue, journal, parts and what was lost."""
