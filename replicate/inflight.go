package replicate

// inflight holds the entries of a session in source order, and the frontier:
// the last of the gapless prefix of complete ones.
type inflight struct {
	queue    []*entry // from the first incomplete one
	uncut    int      // index of the first that was not routed yet
	next     uint64   // order of the next entry
	last     Position // of the last entry received
	frontier Position
}

func (f *inflight) push(e *entry) {
	e.order = f.next
	f.next++
	f.last = e.pos
	f.queue = append(f.queue, e)
}

// advance moves the frontier over complete entries and hands each to done.
func (f *inflight) advance(done func(*entry)) bool {
	n := 0
	for n < len(f.queue) && f.queue[n].complete() {
		e := f.queue[n]
		if e.pos.Compare(f.frontier) > 0 {
			f.frontier = e.pos
		}
		f.queue[n] = nil
		done(e)
		n++
	}
	if n == 0 {
		return false
	}
	f.queue = f.queue[n:]
	f.uncut -= n
	return true
}

// begun returns the entries that were routed and are not complete.
func (f *inflight) begun() []*entry { return f.queue[:f.uncut] }
