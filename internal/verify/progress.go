package verify

import "sync/atomic"

// Progress tells how far a comparison is, while it runs. The zero value is ready,
// and it is safe for concurrent use.
type Progress struct {
	phase       atomic.Pointer[string]
	total, read atomic.Int64
	bytes       atomic.Int64
}

// State is how far it is: entries read of those that are to be read in this phase,
// and bytes read in all.
type State struct {
	Phase              string
	Read, Total, Bytes int64
}

// State is safe to ask for at any time.
func (p *Progress) State() State {
	s := State{Read: p.read.Load(), Total: p.total.Load(), Bytes: p.bytes.Load()}
	if phase := p.phase.Load(); phase != nil {
		s.Phase = *phase
	}
	return s
}

func (p *Progress) begin(phase string) {
	p.total.Store(0)
	p.read.Store(0)
	p.phase.Store(&phase)
}

func (p *Progress) entry(size int) {
	p.read.Add(1)
	p.bytes.Add(int64(size))
}
