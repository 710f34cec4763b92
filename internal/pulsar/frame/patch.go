package frame

import "google.golang.org/protobuf/encoding/protowire"

// Patch says what AppendPatched changes in MessageMetadata. A nil slice keeps
// what is there; an empty one writes an empty value. The fields are added where
// they are missing.
type Patch struct {
	ProducerName, ReplicatedFrom, SchemaVersion []byte
	// Identity becomes the value of IdentityProperty.
	Identity []byte
	// SetStamp writes HashMin and HashMax into entry_hash_min and _max.
	SetStamp         bool
	HashMin, HashMax uint32
}

// AppendPatched appends metadata with the changes of p (nil: none) to dst, in
// one pass. The transaction id is always left out, since it would collide with
// a transaction of the target's. All other fields, unknown ones too, stay as
// they are and where they are; what is new comes last. metadata must have
// passed Scan.
func AppendPatched(dst, metadata []byte, p *Patch) []byte {
	var none edit
	return appendEdited(dst, metadata, p, &none)
}

// change is what an edit does with one field.
type change uint8

const (
	keep change = iota
	drop
	set // replaced in place, added if missing
)

// edit is the part of the surgery that a Patch does not cover: the fields that
// differ between a batch and what is cut out of it.
type edit struct {
	sequence, highest, numMessages, compression, uncompressed, eventTime intEdit
	keyB64, nullValue, nullKey                                           intEdit
	key, ordering                                                        bytesEdit
	properties                                                           propertiesEdit
	dropCompacted                                                        bool
}

type intEdit struct {
	change change
	value  uint64
}

type bytesEdit struct {
	change change
	value  []byte
}

// propertiesEdit replaces all properties but the identity by those of a
// SingleMessageMetadata, copied from its field 1.
type propertiesEdit struct {
	change change
	single []byte
}

// op is an edit on its way through the fields: done once it was written.
type op struct {
	num  protowire.Number
	typ  protowire.Type
	do   change
	n    uint64
	val  []byte
	done bool
}

func (o *op) append(dst []byte) []byte {
	o.done = true
	if o.do != set {
		return dst
	}
	if o.typ == protowire.VarintType {
		return varint(dst, o.num, o.n)
	}
	dst = protowire.AppendTag(dst, o.num, protowire.BytesType)
	return protowire.AppendBytes(dst, o.val)
}

const maxOps = 20

// script is the list of all changes, by field number.
type script struct {
	ops [maxOps]op
	n   int
	at  [mdHashMax + 1]uint8 // index into ops, plus 1
}

func (s *script) ints(num protowire.Number, e intEdit) {
	if e.change != keep {
		s.add(op{num: num, typ: protowire.VarintType, do: e.change, n: e.value})
	}
}

func (s *script) bytes(num protowire.Number, e bytesEdit) {
	if e.change != keep {
		s.add(op{num: num, typ: protowire.BytesType, do: e.change, val: e.value})
	}
}

func (s *script) add(o op) {
	s.ops[s.n] = o
	s.n++
	s.at[o.num] = uint8(s.n)
}

func (s *script) find(num protowire.Number) *op {
	if num > mdHashMax || s.at[num] == 0 {
		return nil
	}
	return &s.ops[s.at[num]-1]
}

// compile lists the changes in the order in which missing fields are added.
func (s *script) compile(p *Patch, e *edit) {
	if p.ProducerName != nil {
		s.bytes(mdProducerName, bytesEdit{set, p.ProducerName})
	}
	s.ints(mdSequenceID, e.sequence)
	if p.ReplicatedFrom != nil {
		s.bytes(mdReplicatedFrom, bytesEdit{set, p.ReplicatedFrom})
	}
	s.bytes(mdPartitionKey, e.key)
	s.ints(mdCompression, e.compression)
	s.ints(mdUncompressedSize, e.uncompressed)
	s.ints(mdNumMessages, e.numMessages)
	s.ints(mdEventTime, e.eventTime)
	if p.SchemaVersion != nil {
		s.bytes(mdSchemaVersion, bytesEdit{set, p.SchemaVersion})
	}
	s.ints(mdKeyB64, e.keyB64)
	s.bytes(mdOrderingKey, e.ordering)
	s.ints(mdTxnLeast, intEdit{change: drop})
	s.ints(mdTxnMost, intEdit{change: drop})
	s.ints(mdHighestSequence, e.highest)
	s.ints(mdNullValue, e.nullValue)
	s.ints(mdNullKey, e.nullKey)
	if e.dropCompacted {
		s.ints(mdCompactedIndexes, intEdit{change: drop})
	}
	if p.SetStamp {
		s.ints(mdHashMin, intEdit{set, uint64(p.HashMin)})
		s.ints(mdHashMax, intEdit{set, uint64(p.HashMax)})
	}
}

// appendEdited is the one pass behind AppendPatched, Rebatch and Single.
func appendEdited(dst, metadata []byte, p *Patch, e *edit) []byte {
	if p == nil {
		p = &Patch{}
	}
	var s script
	s.compile(p, e)
	props := propertiesPass{patch: p, edit: &e.properties}
	for b := metadata; len(b) > 0; {
		f, ok := next(b)
		if !ok {
			dst = append(dst, b...) // Scan would have refused it
			break
		}
		raw := b[:f.size]
		b = b[f.size:]
		if f.num == mdProperties {
			dst = props.append(dst, f, raw)
		} else if o := s.find(f.num); o == nil {
			dst = append(dst, raw...)
		} else if !o.done {
			dst = o.append(dst)
		}
	}
	dst = props.finish(dst)
	for i := range s.ops[:s.n] {
		if o := &s.ops[i]; !o.done {
			dst = o.append(dst)
		}
	}
	return dst
}

// propertiesPass carries the properties over.
type propertiesPass struct {
	patch    *Patch
	edit     *propertiesEdit
	identity bool // written
	replaced bool // the messages' own were written
}

func (p *propertiesPass) append(dst []byte, f field, raw []byte) []byte {
	if key, _, ok := keyValue(f.val); ok && string(key) == IdentityProperty {
		if p.patch.Identity == nil {
			return append(dst, raw...)
		}
		return p.writeIdentity(dst)
	}
	if p.edit.change == keep {
		return append(dst, raw...)
	}
	return p.writeSingle(dst)
}

func (p *propertiesPass) finish(dst []byte) []byte {
	if p.edit.change != keep {
		dst = p.writeSingle(dst)
	}
	if p.patch.Identity != nil {
		dst = p.writeIdentity(dst)
	}
	return dst
}

func (p *propertiesPass) writeIdentity(dst []byte) []byte {
	if p.identity {
		return dst
	}
	p.identity = true
	value := p.patch.Identity
	dst = protowire.AppendTag(dst, mdProperties, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(2+
		protowire.SizeBytes(len(IdentityProperty))+protowire.SizeBytes(len(value))))
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendString(dst, IdentityProperty)
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

// writeSingle copies the properties of the message that is taken out. An
// identity among them is the application's forgery or a copy from an earlier
// hop; the entry's own counts.
func (p *propertiesPass) writeSingle(dst []byte) []byte {
	if p.replaced {
		return dst
	}
	p.replaced = true
	for b := p.edit.single; len(b) > 0; {
		f, ok := next(b)
		if !ok {
			break
		}
		b = b[f.size:]
		if f.num != smProperties || f.typ != protowire.BytesType {
			continue
		}
		if key, _, ok := keyValue(f.val); ok && string(key) == IdentityProperty {
			continue
		}
		dst = protowire.AppendTag(dst, mdProperties, protowire.BytesType)
		dst = protowire.AppendBytes(dst, f.val)
	}
	return dst
}
