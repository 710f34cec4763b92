package replicate

import "testing"

// parkingRecord is a record of an earlier session that was parking above 20.
func parkingRecord() *Record {
	parked := placed(20)
	return &Record{Epoch: 6, Frontier: Position{Ledger: 7, Entry: 3}, Parked: &parked}
}

// recoveringParked is a session that opens on that record.
func recoveringParked(t *testing.T) *rig {
	r := newRig(t, nil).layout(splitOne(t)).on(evSubscribed).on(evActive).checkpoint(parkingRecord()).want("record epoch 7 frontier 3 parked@20")
	return r.stored().want("ack 3", "take parking gen 1 from 20").state(Recovering)
}

// What an earlier session parked is done, even if the layout would not have it
// parked any more.
func TestParkedBefore(t *testing.T) {
	r := recoveringParked(t)
	r.parkingTaken(1, 30, storedCopy(3, 21, 2), storedCopy(4, 22, 2)).want("record epoch 7 frontier 3 parked@20").state(Recovering)
	r.stored().want().state(Running)
	r.layout(one(t)).want()
	r.giveEntry(4, encryptedBatch(t)).want("present 2").on(evTick).want("record epoch 7 frontier 4 parked@20").stored().want("ack 4")
	r.giveEntry(5, encryptedBatch(t)).want("claim 1 gen 1")
	// Nothing is above the frontier in the end.
	r.claimed(1, 1, 5).stored().receipt(1, 1, 1, 6).on(evStop).want("record epoch 7 frontier 5 clean 1@6")
}

// A clean record says that nothing is parked above its frontier.
func TestParkedBeforeClean(t *testing.T) {
	rec := parkingRecord()
	rec.Clean = true
	r := newRig(t, nil).layout(splitOne(t)).on(evSubscribed).on(evActive).checkpoint(rec).want("record epoch 7 frontier 3")
	r.stored().want("ack 3").state(Running)
}

// A producer that died is claimed and proven again, and what has no receipt is
// parked again.
func TestParkingLost(t *testing.T) {
	r := newRig(t, nil).open(splitOne(t)).giveEntry(0, encryptedBatch(t)).giveEntry(1, encryptedBatch(t))
	r.parkingTaken(1, 7).stored().step(Event{Kind: evParked, Gen: 1})
	r.step(Event{Kind: evParkingLost, Gen: 1, Err: errLost}).want("take parking gen 2")
	r.step(Event{Kind: evParked, Gen: 1}).want() // of the producer that died: nobody knows which
	r.parkingTaken(1, 8).want().parkingTaken(2, 9).want("record epoch 1 frontier 0 parked@7").stored().want("ack 0", "park 1 encrypted")
	r.step(Event{Kind: evParked, Gen: 2}).on(evTick).want("record epoch 1 frontier 1 parked@7")
}

// A successor parks what is not parked yet; it looks for what was.
func TestParkingHandOver(t *testing.T) {
	r := newRig(t, nil).open(splitOne(t)).giveEntry(0, encryptedBatch(t)).parkingTaken(1, 7).stored()
	r.on(evInactive).want("record epoch 1 frontier -1 parked@7").state(Settling)
	// Begun nothing of it, so nothing is in doubt.
	r = newRig(t, nil).open(splitOne(t)).giveEntry(0, encryptedBatch(t)).on(evInactive).state(Settling)
	r.stored().want("close").state(Closed)
}
