package replicate

// parkingState is where the parking topic stands for one session.
type parkingState int

const (
	parkingFree      parkingState = iota // not needed yet
	parkingTaking                        // its producer is being opened, and what is parked looked for
	parkingDeclaring                     // the record that lists it, or proves the taking, has no receipt yet
	parkingOpen                          // entries are parked as they come
)

// parking is the parking topic as a session uses it. It is taken as N(L), with a
// barrier, and the record lists it before the first entry is parked, as with a
// target segment: of two holders one parks, and an opening finds what was parked.
type parking struct {
	state      parkingState
	gen        int      // of the present producer; events of older ones are stale
	waiting    []poison // without receipt, in the order in which they came
	trouble    error    // why it is taken again, or could not be taken yet
	declaredBy uint64   // the version of the record that declares or proves it
}

// park has a poison entry parked.
func (m *Machine) park(p poison) {
	m.parking.waiting = append(m.parking.waiting, p)
	switch m.parking.state {
	case parkingFree:
		m.takeParking(noPosition())
	case parkingOpen:
		m.emit(Effect{Kind: efPark, Gen: m.parking.gen, Poison: p})
	}
}

// takeParking asks for the producer N(L) on the parking topic, and for all that
// this lane has parked above from; no position: nothing is in doubt.
func (m *Machine) takeParking(from Position) {
	m.parking.state = parkingTaking
	m.emit(Effect{Kind: efTakeParking, Gen: m.parking.gen + 1, From: from})
}

// recoverParked looks for what earlier sessions parked above the frontier. Under
// another layout it might need no parking any more, and would be copied, too.
func (m *Machine) recoverParked() {
	if m.unsure && m.record.Parked != nil && m.parking.state == parkingFree {
		m.takeParking(*m.record.Parked)
	}
}

// onParkingTaken: nothing older can be parked any more.
func (m *Machine) onParkingTaken(ev Event) {
	p := &m.parking
	if p.state != parkingTaking || ev.Gen != p.gen+1 {
		return
	}
	p.gen, p.trouble = ev.Gen, nil
	for _, f := range ev.Found {
		if f.source.Compare(m.entries.frontier) > 0 {
			m.present.add(f)
		}
	}
	if m.record.Parked == nil {
		m.record.Parked = &ev.Pos
	}
	p.state = parkingDeclaring
	p.declaredBy = m.writeNow()
}

// parkingStored opens the parking topic if the record that was stored lists it.
func (m *Machine) parkingStored() {
	p := &m.parking
	if p.state != parkingDeclaring || p.declaredBy > m.version {
		return
	}
	p.state = parkingOpen
	for _, w := range p.waiting {
		m.emit(Effect{Kind: efPark, Gen: p.gen, Poison: w})
	}
}

// onParkingLost takes the topic again. What has no receipt is parked again, under
// the same key: that does no harm.
func (m *Machine) onParkingLost(ev Event) {
	if m.parking.state != parkingOpen || ev.Gen != m.parking.gen {
		return
	}
	m.parking.trouble = ev.Err
	m.takeParking(noPosition())
}

// onParkTrouble only keeps the reason; the driver goes on trying.
func (m *Machine) onParkTrouble(ev Event) {
	if m.parking.state == parkingTaking && ev.Gen == m.parking.gen+1 {
		m.parking.trouble = ev.Err
	}
}

// onParked: entries are parked one at a time.
func (m *Machine) onParked(ev Event) {
	p := &m.parking
	if p.state != parkingOpen || ev.Gen != p.gen || len(p.waiting) == 0 {
		return
	}
	p.waiting[0].entry.left--
	p.waiting = p.waiting[1:]
	m.progress()
}
