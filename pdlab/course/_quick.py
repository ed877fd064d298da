"""Import this before nbformat to have it in a tenth of the time.

nbformat imports jsonschema, which imports ``rfc3987_syntax`` where that is installed, and that module
builds a grammar for three seconds.  It checks the format of internationalised web addresses, of which
a notebook's schema has none; jsonschema does without it when it cannot be imported.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
