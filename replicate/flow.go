package replicate

// flow decides how many permits the source consumer gets, so that what the
// lane holds stays near its window. Permits count messages, and the broker may
// overdraw them by a batch (observed, broker 5.0.1), while the window counts
// bytes: so it learns the size of a message, quickly upwards and slowly
// downwards, and starts small.
type flow struct {
	window  int     // bytes
	held    int     // bytes of entries in flight
	permits int     // given and not used yet; negative: overdrawn
	limit   int     // permits at once, doubling while it is the limit that holds the lane up
	size    float64 // bytes a message: the largest seen, slowly forgotten
}

const (
	firstPermits = 8
	// leastSize is the least that a message is taken for, in bytes. Permits
	// cannot be taken back: when small messages are followed by large ones, what
	// arrives is up to window/leastSize of the large ones.
	leastSize = 4 << 10
)

func newFlow(window int) flow {
	return flow{window: window, limit: firstPermits, size: leastSize}
}

// arrived counts an entry in.
func (f *flow) arrived(bytes, messages int) {
	f.held += bytes
	f.permits -= messages
	each := float64(bytes) / float64(max(messages, 1))
	if each > f.size {
		f.size = each
	} else {
		f.size = max(leastSize, f.size+(each-f.size)/256)
	}
}

// released counts an entry out.
func (f *flow) released(bytes int) { f.held -= bytes }

// refill returns the permits to give now; 0 for none. It waits until at least
// half of what could be given is missing, so that permits travel in few commands.
func (f *flow) refill() int {
	room := int(float64(f.window-f.held) / f.size)
	if f.held == 0 {
		room = max(room, 1) // an entry larger than the window must pass, too
	}
	goal := min(room, f.limit)
	missing := goal - f.permits
	if missing <= 0 || missing*2 < goal {
		return 0
	}
	if room > f.limit {
		f.limit *= 2
	}
	f.permits += missing
	return missing
}
