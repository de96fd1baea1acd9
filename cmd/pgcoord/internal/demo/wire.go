package demo

// kind names a step of the story. The first group is told by workers.
type kind string

const (
	kindReady    kind = "ready"    // connected; waits for the parent's word
	kindWaits    kind = "waits"    // found the order taken
	kindTook     kind = "took"     // holds the order; waits for the parent's word
	kindChecked  kind = "checked"  // looked before it writes
	kindPoint    kind = "point"    // waits to be stopped and continued
	kindCharged  kind = "charged"  // its charge is stored
	kindRefused  kind = "refused"  // its charge was refused
	kindEnded    kind = "ended"    // let the order go
	kindFinished kind = "finished" // nothing left to do
	kindFailed   kind = "failed"   // something that is not part of the story

	kindStopped   kind = "stopped"
	kindExpired   kind = "expired"
	kindContinued kind = "continued"
	kindKilled    kind = "killed"
)

// event is one line that a worker writes to its parent. Text is for people;
// an event without it is not shown.
type event struct {
	Kind  kind   `json:"kind"`
	Token int64  `json:"token,omitempty"`
	Text  string `json:"text,omitempty"`
}

// assignment is the first line that a worker reads. It travels by pipe, because
// the arguments of a process are for everybody to see and DSN may hold a password.
type assignment struct {
	Scenario string `json:"scenario"`
	Worker   string `json:"worker"`
	Pause    bool   `json:"pause"` // wait at the point to be stopped and continued
	DSN      string `json:"dsn"`
	Endpoint string `json:"endpoint"` // of the scenario's referee, where it has one
	Order    int    `json:"order"`
}
