package flow

import (
	"context"
	"encoding/json"
	"time"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

const (
	// justNow is how long after a login a person may change who may do what.
	justNow = 5 * time.Minute
	// newToken is how long a token may enroll a passkey after it was made, as after pairing.
	newToken = 15 * time.Minute
)

// needsProof tells whether an answer of a caller takes a signature: where the operator said
// so, where the person has a key, and where anybody has one and the caller shows no more
// than a token, which may lie on a disk.
func (e *Engine) needsProof(by op.Caller, list review.Roster) bool {
	now := e.cfg.Now()
	return e.cfg.ReviewAuth == "passkey" || len(list.Signers(by.Name, now)) > 0 || by.LoggedIn.IsZero() && len(list.Signers("", now)) > 0
}

// proven holds an answer to its proof. What is wrong with an answer otherwise, the queue
// says: a row that waits no longer is not asked a proof.
func (e *Engine) proven(ctx context.Context, by op.Caller, id op.ID, a journal.Answer) (journal.Answer, error) {
	if !by.Role.Includes(op.Reviewer) {
		return a, nil // the queue refuses, and that is put on record
	}
	row, err := e.jrn.Approval(ctx, id)
	if err != nil || row.State != journal.Pending {
		return a, nil // the queue says why
	}
	list, err := e.Roster(ctx)
	if err != nil {
		return a, err
	}
	if err := e.onRoster(by, row, list); err != nil {
		return a, err
	}
	if len(a.Proof) == 0 {
		if e.needsProof(by, list) {
			return a, e.refusedProof(by, id, e.askPasskey(by, id, list))
		}
		return a, nil
	}
	var p review.Proof
	if json.Unmarshal(a.Proof, &p) != nil || a.ShownDigest != row.ShownDigest {
		return a, e.refusedProof(by, id, review.NoProof())
	}
	who, p, err := e.signer(by, list, review.Statement{Card: id, ShownDigest: row.ShownDigest, Answer: a.Answer, Remember: a.Remember, Note: a.Note}, p)
	if err == nil {
		err = e.used(ctx, who)
	}
	if err != nil {
		return a, e.refusedProof(by, id, err)
	}
	a.Reviewer = who.ID
	a.Proof, err = json.Marshal(p)
	return a, err
}

// signer checks a proof of whichever kind against the entries of the caller alone.
func (e *Engine) signer(by op.Caller, list review.Roster, s review.Statement, p review.Proof) (review.Reviewer, review.Proof, error) {
	own := review.Roster(list.Signers(by.Name, e.cfg.Now()))
	if own.Carried(p, e.cfg.Now()) {
		who, err := own.Touched(s, p, e.cfg.Now())
		return who, review.Proof{Reviewer: who.ID, Assertion: p.Assertion}, err
	}
	if len(p.Assertion) > 0 {
		return e.passkeys.Proven(by.Name, own, s, p)
	}
	who, err := own.Signed(s, p, e.cfg.Now())
	return who, review.Proof{Reviewer: p.Reviewer, Signature: p.Signature}, err
}

// used keeps that an entry was used: a passkey's counter must be on disk before the answer
// counts, else a copy of the passkey could use the same count.
func (e *Engine) used(ctx context.Context, who review.Reviewer) error {
	if who.Kind != review.Passkey {
		return nil
	}
	return e.roster.change(ctx, e.jrn, func(list review.Roster) (review.Roster, error) {
		for i, r := range list {
			if r.ID == who.ID && r.Live(e.cfg.Now()) {
				list[i] = who
				return list, nil
			}
		}
		return nil, review.NoProof() // revoked just now
	})
}

// onRoster holds cards that take two people to people of the roster, where there is one:
// tokens are made easily, and each would count as a person.
func (e *Engine) onRoster(by op.Caller, row journal.Approval, list review.Roster) error {
	if review.CardOf(row).Needs < 2 || len(list.People(e.cfg.Now())) == 0 || list.People(e.cfg.Now())[by.Name] {
		return nil
	}
	return op.Fail(op.Forbidden, "this card takes two people of the roster, and "+by.Name+" is not on it").Do("register a passkey, or have the operator enroll you")
}

// askPasskey words what is needed, and where.
func (e *Engine) askPasskey(by op.Caller, id op.ID, list review.Roster) error {
	at := "the review page"
	if e.cfg.ReviewURL != nil {
		at = e.cfg.ReviewURL(id)
	} else if o := e.passkeys.Site().Origin; o != "" {
		at = o + "/#/approvals/" + string(id)
	}
	if len(list.Signers(by.Name, e.cfg.Now())) == 0 {
		return op.Fail(op.PasskeyNeeded, "answers need a passkey here, and "+by.Name+" has none").Do("register one at " + at + " and answer there")
	}
	return op.Fail(op.PasskeyNeeded, "answers of "+by.Name+" need the passkey").Do("answer at " + at)
}

// refusedProof puts on record that somebody tried to answer without a proof that holds.
func (e *Engine) refusedProof(by op.Caller, id op.ID, err error) error {
	outcome := string(op.AsError(err).Code)
	if review.Copied(err) {
		outcome = "passkey_copied"
	}
	e.log.Append(audit.Record{Kind: audit.Answer, Agent: by.Name, ApprovalID: id, Outcome: outcome})
	return err
}

// Steady guards what would make an answer unneeded or give somebody else the right to
// answer: once anybody has a key, a token alone changes none of it.
func (e *Engine) Steady(ctx context.Context, by op.Caller) error {
	list, err := e.Roster(ctx)
	if err != nil {
		return err
	}
	if e.cfg.ReviewAuth != "passkey" && len(list.Signers("", e.cfg.Now())) == 0 || e.justSignedIn(by) {
		return nil
	}
	return op.Fail(op.Forbidden, "reviewers have passkeys here, so this takes a person who logged in within the last five minutes").
		Do("run it on a terminal, which asks for the passphrase, or sign in again; a token is not enough")
}

// justSignedIn tells whether a person showed a moment ago who they are.
func (e *Engine) justSignedIn(by op.Caller) bool {
	return !by.LoggedIn.IsZero() && e.cfg.Now().Sub(by.LoggedIn) < justNow
}

// AnswerSigned takes an answer that carries no token: who signed it is who gave it.
func (e *Engine) AnswerSigned(ctx context.Context, id op.ID, a journal.Answer, p review.Proof) (journal.Approval, error) {
	who, err := e.Person(ctx, p.Reviewer)
	if err != nil || !who.Signs() {
		return journal.Approval{}, review.NoProof()
	}
	if a.Proof, err = json.Marshal(p); err != nil {
		return journal.Approval{}, err
	}
	return e.Answer(ctx, op.Caller{Token: who.ID, Name: who.Name, Role: op.Reviewer, Roots: who.Roots}, id, a)
}

// Challenge asks a person's passkey for a touch over one answer to one card.
func (e *Engine) Challenge(ctx context.Context, by op.Caller, id op.ID, a journal.Answer) (json.RawMessage, error) {
	if err := e.scoped(ctx, by, id); err != nil {
		return nil, err
	}
	row, err := e.queue.Row(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case row.State != journal.Pending:
		return nil, op.Fail(op.AlreadyAnswered, "the card waits no longer")
	case a.Answer != "approve" && a.Answer != "reject":
		return nil, op.Fail(op.BadRequest, "answer must be approve or reject").In("answer")
	case len(a.Note) > review.MaxNote:
		return nil, op.Fail(op.TooLarge, "the words are over 4096 bytes").In("note").Do("say it shorter")
	case a.ShownDigest != row.ShownDigest:
		return nil, op.Fail(op.Stale, "the answer is about another card than the one that waits").In("shown_digest").Do("show the card and answer with its shown_digest")
	}
	list, err := e.Roster(ctx)
	if err != nil {
		return nil, err
	}
	return e.passkeys.Challenge(by.Name, list.Signers(by.Name, e.cfg.Now()),
		review.Statement{Card: id, ShownDigest: a.ShownDigest, Answer: a.Answer, Remember: a.Remember, Note: a.Note})
}
