"""How schemathesis makes up requests: with streams left out, which it cannot read."""

import schemathesis


@schemathesis.hook
def before_call(context, case, **kwargs):
    # Only what asks for a stream: wrong values stay, and must be refused.
    if isinstance(case.body, dict) and case.body.get("stream") is True:
        case.body["stream"] = False
