"""What the text of events looks like: where one ends and the next begins."""

import re
from typing import Final

from traceroof.core import regex

SPACE: Final = b" \t\r\n"
_EVENT_KEYS = rb'"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:'
#: End of one event and start of the next.
BOUNDARY = regex.compile(rb"\}\s*,\s*\{\s*" + _EVENT_KEYS)
# The same without the comma.
GAP = regex.compile(rb"\}(\s*\{\s*" + _EVENT_KEYS + rb")")
EVENT_START = regex.compile(rb"\{\s*" + _EVENT_KEYS)
# End of the last event and of the list, as far as what follows tells.
LIST_END = regex.compile(rb'\}\s*\](?=\s*(?:,\s*"|\}?\s*$))')
SCALAR = regex.compile(rb'"(?:[^"\\]|\\.)*"|[^\s,\]}"]+', re.DOTALL)
GOES_ON = regex.compile(rb"\][\s\]}]{0,64},\s*(?P<event>\{\s*" + _EVENT_KEYS + rb")")
# Strings, so that what they hold is passed over; a lone quote opens one that does not end here.
TOKEN = regex.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
