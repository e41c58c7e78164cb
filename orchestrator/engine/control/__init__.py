"""The control protocol: how other processes reach the sessions of a host. One JSON object per line each way, ended by 0x0A.

    command   {"id"?, "type", "sessionId"?, …}                    see `requests`
    answer    {"id"?, "type": "response", "command", "success", "data"? | "error"?: {"code", "message"}}

Commands of one connection begin in the order in which they came; an answer comes when what it tells of is so (a prompt is in the
journal, an aborted run has ended), so answers may come in another order. What changes a session goes to it as mail.

A `subscribe` is answered with `{generation, seqs, rows}`; so many snapshot lines follow, parents before children, and then, of each
root, every line of its stream with a number above `seqs[root]`. A connection has one subscription: another one takes its place.

    snapshot  {"type": "snapshot", "generation", "rootSessionId", "sessionId", "row"}   how a session stands
    opened    {"type": "opened", "generation", "rootSessionId", "seq", "rows"}          a stored tree: its snapshot lines follow
    left      {"type": "left", "rootSessionId"}                                         the host has let go of a tree
    gap       {"type": "gap", "rootSessionId", "missed"}                                so many lines were too many for this reader

A slow reader gets the waiting deltas of a block in one line, which has the number of the last of them; then a gap. It comes
back with `since: {generation, seq}` or `{generation, seqs}`, as long as the ring of the tree holds what it missed. Numbers of one
generation are given out once; another generation is another host. The end of the connection is the end of the host.

Codes of errors: invalid_json, wrong_shape, wrong_value, unknown_command, line_too_long; no_session, unknown_session, unknown_entry,
unknown_model, not_ours (another process owns the tree), no_key; busy, refused, not_running, not_confirmed (it may still happen),
not_begun, not_compacted, not_stored, not_forked, nothing_before, not_started; internal (a bug, told as what it is).
"""
