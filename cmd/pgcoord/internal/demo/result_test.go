package demo

import "testing"

func TestVerdict(t *testing.T) {
	cases := map[string]struct {
		guarded                 bool
		effects, refused, cents int
		charges                 int
		ok                      bool
	}{
		"pgcoord as promised":        {true, 1, 1, price, 1, true},
		"pgcoord charged twice":      {true, 2, 0, 2 * price, 2, false},
		"pgcoord refused nothing":    {true, 1, 0, price, 1, false},
		"pgcoord charged nothing":    {true, 0, 1, 0, 0, false},
		"naive as told":              {false, 2, 0, 2 * price, 2, true},
		"naive happened to go well":  {false, 1, 0, price, 1, false},
		"naive refused":              {false, 2, 1, 2 * price, 2, false},
		"money and effects disagree": {true, 1, 1, 2 * price, 1, false},
		"a refused charge is stored": {true, 1, 1, price, 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := result{
				about: about{guarded: c.guarded}, charges: c.charges,
				Effects: c.effects, Refused: c.refused, ChargedCents: c.cents,
			}
			if err := r.verdict(); (err == nil) != c.ok {
				t.Errorf("verdict: %v, want ok %v", err, c.ok)
			}
		})
	}
}

func TestScenarioNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios {
		if name := s.about().name; seen[name] || name == "" {
			t.Errorf("name %q", name)
		} else {
			seen[name] = true
		}
	}
}
