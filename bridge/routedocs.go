package bridge

// routeDoc says of one route what its handler does not say by itself. The zero value is a
// route without a token that answers nothing.
type routeDoc struct {
	role  string // whom it serves; "any" where the handler scopes what it shows
	does  string
	query string // parameters: "name:type ..."
	body  string // fields: "name!:type ...", or the name of a schema
	fails []int  // beyond those that every route of its kind has
	kind  string // of an answer that is no JSON
	reply bool   // it answers like a call
	both  bool   // a failure has the shape of the answer
	row   bool   // a conflict comes with the row
}

var (
	absent  = []int{404}
	changes = []int{404, 409, 422, 429}
)

// routeDocs has a row for every route but the page's and MCP's; a test holds it to the
// routes that are served.
var routeDocs = map[string]routeDoc{
	"GET /healthz":      {does: "Tells that the process lives.", kind: "text/plain"},
	"GET /readyz":       {does: "Tells whether calls are served.", kind: "text/plain"},
	"GET /openapi.json": {does: "This document."},
	"GET /metrics":      {role: "any", does: "Counters and histograms in the text format of Prometheus.", kind: "text/plain", fails: []int{422}},
	"POST /v1/login":    {does: "Opens a reviewer's session with the passphrase.", body: "passphrase!", fails: []int{401, 403, 404, 409, 422}},

	"GET /v1/login":                 {does: "How people sign in here."},
	"GET /v1/login/provider":        {does: "Sends a browser to the identity provider.", kind: "text/html", fails: []int{422, 429}},
	"GET /v1/login/provider/done":   {does: "Where the provider sends it back to; the page goes on.", kind: "text/html", fails: []int{422}},
	"POST /v1/login/provider/claim": {does: "Opens the session of a completed sign-in, for the browser that signed in.", body: "code!", fails: []int{401, 403, 422}},

	"POST /v1/pair":       {role: "reviewer", does: "Opens a one-time code that puts a phone on.", body: "name! expires"},
	"POST /v1/pair/claim": {does: "Gives a reviewer's token for a code.", body: "code!", fails: []int{401, 403, 422}},

	"GET /v1/me":                        {role: "any", does: "Whose token this is, and whether answers of theirs take a passkey."},
	"GET /v1/reviewers":                 {role: "reviewer", does: "The roster of people who answer, with their keys, ended ones too."},
	"POST /v1/reviewers":                {role: "operator", does: "Enrolls a key, an account of the identity provider, or a passkey of a hub's page.", body: "name! kind!:enum=ed25519|oidc|passkey public passkey account device roots:list expires", fails: changes},
	"DELETE /v1/reviewers/{id}":         {role: "operator", does: "Ends an entry, or by a name all of a person's, with their tokens.", fails: changes},
	"POST /v1/passkeys/begin":           {role: "reviewer", does: "Begins to register a passkey: prove with one that is there, or create.", body: "proof:object", fails: changes},
	"POST /v1/passkeys":                 {role: "reviewer", does: "Registers what the browser made.", body: "credential!:object device", fails: changes},
	"POST /v1/approvals/{id}/challenge": {role: "reviewer", does: "What a passkey is to sign for one answer to this card.", body: "answer!:enum=approve|reject remember:bool note shown_digest!", fails: changes},

	"POST /v1/call":      {role: "agent", does: "The one entry for every operation.", body: "Request", reply: true, fails: changes},
	"POST /v1/preflight": {role: "agent", does: "Facts, decision and pins of a call that is not made; or facts of paths alone, of many a page and the digest of all.", body: "Preflight", both: true, fails: changes},
	"POST /v1/undo": {role: "any", does: "Takes operations back, by credential or id.", reply: true, fails: changes,
		body: "credential:object operation_id operations:list merge:bool keep_going:bool force:bool root dry_run:bool request_id session stage execution_id intent"},
	"POST /v1/clean": {role: "agent", does: "Runs the cleanup of one entry of the trusted policy.", reply: true, fails: changes,
		body: "policy_id! root dry_run:bool request_id session stage execution_id"},

	"GET /v1/approvals":              {role: "any", does: "Lists cards; with limit or next summaries, in pages.", query: "state mine:bool limit:int next:int"},
	"GET /v1/approvals/{id}":         {role: "any", does: "Shows a card, and waits for its end.", query: "wait", fails: absent},
	"GET /v1/approvals/{id}/diff":    {role: "any", does: "Gives a card's change with all the lines around it.", fails: []int{404, 409, 413, 422}},
	"GET /v1/approvals/{id}/reach":   {role: "reviewer", does: "Tells what remembering an answer would cover.", fails: []int{404, 422}},
	"POST /v1/approvals/{id}/answer": {role: "any", does: "Approves or rejects what was shown. Reviewers only; who else tries is on record.", body: "answer!:enum=approve|reject remember:bool note shown_digest proof:object", fails: changes, row: true},
	"POST /v1/approvals/{id}/cancel": {role: "any", does: "Withdraws a card, or an approval that has not started.", fails: changes, row: true},

	"GET /v1/operations":           {role: "any", does: "The log, newest first.", query: "root agent session path state limit:int since next:int"},
	"GET /v1/operations/{id}":      {role: "any", does: "One operation, with effects and diff.", fails: absent},
	"GET /v1/operations/{id}/kept": {role: "any", does: "What an operation put aside, to be saved elsewhere.", fails: []int{404, 409, 413, 422}},
	"GET /v1/sessions":             {role: "any", does: "The sessions that callers named: what each did, what of it stands, what waits.", query: "root since", fails: absent},
	"POST /v1/diff":                {role: "any", does: "One patch over several operations.", body: "root operations:list", fails: changes},
	"POST /v1/elsewhere":           {role: "any", does: "What else changed in a root since a moment.", body: "root since! operations:list", fails: absent},
	"POST /v1/gc":                  {role: "any", does: "Drops what is kept no longer.", body: "dry_run:bool now", fails: changes},
	"POST /v1/forget":              {role: "operator", does: "Ends kept content for good.", body: "root what!", fails: changes},
	"POST /v1/verify":              {role: "observer", does: "Checks journal, stores and audit.", body: "repair:bool", fails: []int{422}},
	"GET /v1/replay":               {role: "observer", does: "Makes every decision on record again.", fails: []int{422}},

	"GET /v1/runs":              {role: "any", does: "Programs that run, and the latest that ended."},
	"GET /v1/runs/{id}":         {role: "any", does: "One program.", fails: absent},
	"GET /v1/runs/{id}/output":  {role: "any", does: "A piece of what a program printed.", query: "stream offset:int tail:int limit:int", fails: []int{404, 422}},
	"GET /v1/runs/{id}/events":  {role: "any", does: "Server-sent events: output, then end. Last-Event-ID goes on from there.", query: "from attach:bool", kind: "text/event-stream", fails: []int{404, 422}},
	"POST /v1/runs/{id}/stop":   {role: "any", does: "Ends a program with all that it started.", fails: changes},
	"POST /v1/runs/{id}/input":  {role: "any", does: "Types into a session.", body: "text text_base64", fails: changes},
	"POST /v1/runs/{id}/resize": {role: "any", does: "Tells a session the size of its terminal.", body: "rows!:int cols!:int", fails: changes},

	"GET /v1/events":  {role: "any", does: "Server-sent events by scope. Last-Event-ID resumes after that event; watch names a root whose changes come too.", query: "from watch", kind: "text/event-stream", fails: []int{403, 404, 422}},
	"GET /v1/changes": {role: "any", does: "What may have changed in a root since a cursor, as a hint where to look.", query: "root after wait", fails: []int{404, 422}},
	"GET /v1/status":  {role: "any", does: "The daemon's own state."},
	"GET /v1/table":   {role: "any", does: "The table of operations."},

	"GET /v1/tokens":          {role: "operator", does: "The roster, without secrets."},
	"POST /v1/tokens":         {role: "operator", does: "Makes a token; its secret is shown this once.", body: "name! role! root roots:list workflow profile clearance:int expires", fails: changes},
	"PUT /v1/tokens":          {role: "operator", does: "Makes a token, as POST does.", body: "name! role! root roots:list workflow profile clearance:int expires", fails: changes},
	"DELETE /v1/tokens":       {role: "operator", does: "Ends a token, named by the query, or by a body of that field.", query: "id", fails: []int{404, 413, 415}},
	"DELETE /v1/tokens/{id}":  {role: "operator", does: "Ends a token.", fails: absent},
	"GET /v1/roots":           {role: "any", does: "The workspaces, as in the status."},
	"POST /v1/roots":          {role: "operator", does: "Serves one more workspace.", body: "name dir!", fails: changes},
	"DELETE /v1/roots/{name}": {role: "operator", does: "Serves a workspace no longer; what it keeps stays.", fails: absent},

	"GET /v1/profiles":               {role: "operator", does: "Every profile, with the agents under it."},
	"PUT /v1/profiles":               {role: "operator", does: "Makes a profile: name beside the parameters of the configuration.", body: "ProfileBody", fails: changes},
	"DELETE /v1/profiles/{name}":     {role: "operator", does: "Removes a profile that was made this way.", fails: changes},
	"DELETE /v1/profiles":            {role: "operator", does: "Removes a profile that was made this way, named by the query, or by a body of that field.", query: "name", fails: []int{404, 409, 413, 415, 422, 429}},
	"PUT /v1/profiles/{name}/agents": {role: "operator", does: "Puts an agent under a profile.", body: "agent!", fails: changes},
	"GET /v1/rules":                  {role: "reviewer", does: "Modes, grants and remembered rules.", query: "all:bool"},
	"PUT /v1/rules":                  {role: "reviewer", does: "Makes a grant.", body: "agent root scope session stage operations:list paths:list max_tier count:int bytes:int for", fails: changes},
	"DELETE /v1/rules/{id}":          {role: "reviewer", does: "Takes a rule back.", fails: changes},
	"DELETE /v1/rules":               {role: "reviewer", does: "Takes a rule back, named by the query, or by a body of that field.", query: "id", fails: []int{404, 409, 413, 415, 422, 429}},
	"GET /v1/mode":                   {role: "reviewer", does: "The same list.", query: "all:bool"},
	"PUT /v1/mode":                   {role: "reviewer", does: "Sets the mode of an agent.", body: "agent root session mode!:enum=deny|prompt|auto|yolo for confirm:bool", fails: changes},
	"DELETE /v1/mode/{id}":           {role: "reviewer", does: "Ends a mode.", fails: changes},
	"DELETE /v1/mode":                {role: "reviewer", does: "Ends a mode by its id, or those of an agent (and session), by the query, or by a body of those fields.", query: "id agent session root", fails: []int{404, 409, 413, 415, 422, 429}},

	"GET /v1/protect":       {role: "any", does: "The protected patterns of a root, or what holds of one path.", query: "root path", fails: []int{404, 422}},
	"GET /v1/protect/test":  {role: "any", does: "The same.", query: "root path", fails: []int{404, 422}},
	"GET /v1/audit":         {role: "observer", does: "The last records of the audit.", query: "n:int"},
	"GET /v1/audit/head":    {role: "observer", does: "The sealed head of the audit, to keep elsewhere."},
	"POST /v1/audit/verify": {role: "observer", does: "Checks the audit, against a head that was kept where given.", body: "head:object", fails: []int{422}},
}
