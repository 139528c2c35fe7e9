"""Why an object waits.

`explanation` has the values, `case` what is known, `explain` the answer, `notes` the lines below it,
`stop_causes` what stops a queue and who did that.
"""
