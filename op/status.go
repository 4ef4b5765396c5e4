package op

// HTTPStatus is the status line for an error code; ExitStatus the exit code of the
// command line. This is the only place where codes are mapped.
func HTTPStatus(c Code) int { return outcomeOf(c).http }

// ExitStatus gives 1 internal, 2 usage, 4 refused by policy, 5 stale or conflict, 6 cannot
// succeed as asked, 7 rejected or expired.
func ExitStatus(c Code) int { return outcomeOf(c).exit }

type outcome struct{ http, exit int }

func outcomeOf(c Code) outcome {
	if o, ok := outcomes[c]; ok {
		return o
	}
	return outcome{422, 6}
}

// Codes not listed cannot succeed as asked: 422 and exit 6.
var outcomes = map[Code]outcome{
	BadRequest: {400, 6}, UnknownOperation: {403, 4}, UnknownRoot: {404, 6}, Unauthenticated: {401, 4}, Forbidden: {403, 4}, BadOrigin: {403, 4},
	QueueFull: {429, 4}, TooLarge: {413, 6}, NotReady: {503, 1}, RequestIDReused: {409, 5},
	OperationDisabled: {403, 4}, ClearanceTooLow: {403, 4}, NoReviewer: {403, 4},
	OutsideWorkspace: {403, 4}, CrossesMount: {403, 4}, SymlinkRefused: {403, 4}, UndoForged: {403, 4},
	NotFound: {404, 6}, UndoUnknown: {404, 6},
	Stale: {409, 5}, BusyWriter: {409, 5}, UndoConflict: {409, 5}, UndoConsumed: {409, 5}, AlreadyAnswered: {409, 5}, ApprovalConsumed: {409, 5},
	Rejected: {403, 7}, Expired: {409, 7}, Cancelled: {409, 7}, UndoExpired: {409, 7},
	PasskeyNeeded: {403, 4}, ProofInvalid: {403, 4},
	IOError: {500, 1}, Internal: {500, 1}, StateCorrupt: {500, 1}, StateLocked: {503, 1}, StateUnsafe: {500, 1},
	PolicyInvalid: {422, 6}, PolicyUnsafePermissions: {422, 6}, UnsupportedPlatform: {422, 6}, NotAvailable: {422, 6},
}
