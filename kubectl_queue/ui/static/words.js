// The sign and the word of each state and problem. Colours repeat them and say nothing of their own.

export const STATES = {
  Open: { sign: "○", word: "Open" },
  Suspended: { sign: "‖", word: "Suspended" },
  Closing: { sign: "◑", word: "Closing" },
  Closed: { sign: "■", word: "Closed" },
  Unknown: { sign: "?", word: "Unknown" },
};

export const POLICIES = {
  None: { sign: "", word: "" },
  Hold: { sign: "‖", word: "Hold" },
  HoldAndDrain: { sign: "▽", word: "HoldAndDrain" },
};

export const PROBLEMS = {
  StopNotAcknowledged: { sign: "!", word: "stop not acknowledged" },
  ChainBroken: { sign: "?", word: "chain of parents broken" },
  DrainOverdue: { sign: "▽", word: "drain past its deadline" },
  DrainBlocked: { sign: "▽", word: "drain blocked" },
};

/** The order of the problems in the list: most pressing first. */
export const PRESSING = Object.keys(PROBLEMS);
