"""Why an object waits.

`explanation` has the values, `explain` the answer, `stop_causes` what stops a queue and who did that.
"""
