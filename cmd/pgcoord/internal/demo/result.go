package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// moment is one line of a timeline, as the parent learned of it.
type moment struct {
	AtMS    float64 `json:"at_ms"`
	Worker  string  `json:"worker,omitempty"`
	Event   kind    `json:"event"`
	Token   int64   `json:"token,omitempty"`
	Effects int     `json:"effects,omitempty"` // stored for the order after a charge
	Text    string  `json:"text"`
}

// result is what came out of a scenario. Effects and ChargedCents are read from
// the database, Refused is counted from what the workers reported.
type result struct {
	about   about
	charges int // that workers reported

	Strategy     string   `json:"strategy"`
	Name         string   `json:"name"`
	Paused       string   `json:"paused"`
	Order        int      `json:"order"`
	Effects      int      `json:"effects"`
	Refused      int      `json:"refused"`
	ChargedCents int      `json:"charged_cents"`
	AsTold       bool     `json:"as_told"`
	Timeline     []moment `json:"timeline"`
}

// verdict returns nil when the scenario came out as its story says.
func (r *result) verdict() error {
	effects, refused := 2, 0
	if r.about.guarded {
		effects, refused = 1, 1
	}
	switch {
	case r.about.guarded && r.Effects > 1:
		return fmt.Errorf("%s: order %d was charged %d times: this must never happen", r.about.name, r.Order, r.Effects)
	case r.Effects != r.charges:
		return fmt.Errorf("%s: %d effects are stored, but workers know of %d", r.about.name, r.Effects, r.charges)
	case r.ChargedCents != r.Effects*price:
		return fmt.Errorf("%s: %d effects, but %d cents charged", r.about.name, r.Effects, r.ChargedCents)
	case r.Effects != effects || r.Refused != refused:
		return fmt.Errorf("%s: did not run as told: %d effects and %d refused, want %d and %d",
			r.about.name, r.Effects, r.Refused, effects, refused)
	}
	return nil
}

// witness records an event of a worker, shows it and counts what it stands for.
func (p *play) witness(ctx context.Context, w *process, e event) error {
	if e.Kind == kindRefused {
		p.result.Refused++
	}
	effects := 0
	if e.Kind == kindCharged {
		p.result.charges++
		var err error
		if effects, _, err = p.order.count(ctx, p.db.pool); err != nil {
			return err
		}
	}
	p.record(moment{Worker: w.name, Event: e.Kind, Token: e.Token, Effects: effects, Text: e.Text})
	return nil
}

// note records a step that is the parent's own or that it saw from outside.
func (p *play) note(worker string, e event) {
	p.record(moment{Worker: worker, Event: e.Kind, Token: e.Token, Text: e.Text})
}

func (p *play) record(m moment) {
	if m.Text == "" {
		return
	}
	m.AtMS = float64(time.Since(p.start).Microseconds()) / 1000
	p.result.Timeline = append(p.result.Timeline, m)
	p.show(m)
}

// lastToken returns the token of the newest moment.
func (p *play) lastToken() int64 {
	if len(p.result.Timeline) == 0 {
		return 0
	}
	return p.result.Timeline[len(p.result.Timeline)-1].Token
}

// writeJSON writes the results for programs.
func writeJSON(out io.Writer, results []result) error {
	body := struct {
		Scenarios []result `json:"scenarios"`
	}{results}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(body)
}
